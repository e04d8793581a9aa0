"""Tasks: from YAML files and data sets to the requests that a model is asked."""
