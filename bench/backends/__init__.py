"""Backends side by side on the same requests: evalcore with vLLM, with transformers and with a
server, and lm-evaluation-harness's own backends of vLLM and of servers; `make bench-backends`."""
