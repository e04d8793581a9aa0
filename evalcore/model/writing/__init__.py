"""Texts that a model writes: planned, decoded together, ended, cut."""
