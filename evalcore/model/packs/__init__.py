"""Each token once: the trie of all requests, cut into packs, and attention over them."""
