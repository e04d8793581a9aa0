"""The same questions asked in several ways: what the way does to scores and to order."""

__all__: list[str] = []
