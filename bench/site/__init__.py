"""The site under load: `make bench-site`, or `python -m bench.site --help`."""
