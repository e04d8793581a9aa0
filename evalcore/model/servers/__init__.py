"""Models behind HTTP servers."""
