"""The rows of data sets, at one commit."""
