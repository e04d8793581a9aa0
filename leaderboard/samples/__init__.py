"""Every question behind a number: stored, listed, searched, as scores by question."""
