"""Checkpoints as training programs write them, joined into a folder that transformers loads."""
