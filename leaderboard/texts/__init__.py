"""Pages of words: method, changelog, about."""
