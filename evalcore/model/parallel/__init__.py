"""Data parallel: copies of one model, each in a process of its own, that share its requests."""
