"""evalcore beside lm-evaluation-harness: the same work in one run on one machine, as ratios."""
