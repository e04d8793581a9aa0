"""A board as it stood: built in the background, kept as a file, read from memory."""
