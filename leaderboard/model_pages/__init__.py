"""A model's page: its commits, places, scores and runs."""
