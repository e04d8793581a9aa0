"""From responses to scores, and from scores to numbers."""
