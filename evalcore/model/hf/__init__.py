"""Causal language models of `transformers`: their files, their loading, the backend."""
