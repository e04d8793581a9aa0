"""What the Hub says of a model, asked, cleaned and judged."""
