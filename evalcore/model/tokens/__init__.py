"""Text to tokens: encoding, the keys of requests, spelling, windows of long texts."""
