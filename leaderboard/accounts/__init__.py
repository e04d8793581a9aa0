"""Accounts: signing up, signing in, and what belongs to one person."""

__all__: list[str] = []
