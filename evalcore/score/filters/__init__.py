"""From responses to the one that is scored."""
