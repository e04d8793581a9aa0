"""Where task files are found: index, names, groups, suites, named prompts, families."""
