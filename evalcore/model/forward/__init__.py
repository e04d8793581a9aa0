"""One forward pass: which rows, how much memory, and from hidden rows to log-probabilities."""
