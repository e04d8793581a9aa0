"""evalcore: the evaluation engine of Plumbline. Read `evaluate.py` first."""

__version__ = "0.1.0"
