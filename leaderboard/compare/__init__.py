"""Models side by side, question by question."""

__all__: list[str] = []
