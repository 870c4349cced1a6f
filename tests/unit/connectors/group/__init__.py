"""What commands and workers of a root tell each other."""
