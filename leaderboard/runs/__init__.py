"""A run's page: its number, what it rests on, its files, every question."""

__all__: list[str] = []
