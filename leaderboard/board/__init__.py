"""The board: what a reader asked of it, as a table, a file and a picture."""
