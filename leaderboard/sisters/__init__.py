"""Does it generalise? Models on a benchmark beside its sister."""

__all__: list[str] = []
