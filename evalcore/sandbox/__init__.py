"""Confines what nobody trusts: a program that a model wrote, or a model itself."""
