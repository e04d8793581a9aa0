"""Models side by side, question by question."""
