"""How likely given texts are: the ways to compute it, and how each is checked."""
