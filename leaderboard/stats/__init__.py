"""Statistics that only the site reads: ranges of ranks, styles, questions, several draws."""
