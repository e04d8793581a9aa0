"""From scored documents to the numbers of tasks and groups."""
