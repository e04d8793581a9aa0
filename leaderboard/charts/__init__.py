"""Charts of a whole board: what its numbers say together."""

__all__: list[str] = []
