"""Backends side by side on the same requests: evalcore with vLLM and with transformers, and
lm-evaluation-harness's own backend of vLLM; `make bench-backends`."""
