"""lm-evaluation-harness's files (as of 0.4.13), written and read."""
