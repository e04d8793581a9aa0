"""What one document's responses are worth, and how documents make one number."""
