"""The suites and task versions as the site knows them, and how they are cited."""
