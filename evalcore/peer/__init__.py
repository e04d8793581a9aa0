"""Names, classes and functions that task code knows from lm-evaluation-harness."""
