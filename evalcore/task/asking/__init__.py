"""From documents to requests: examples, prompts, chat, gold answers."""
