"""For those who write tasks: checks, pins."""
