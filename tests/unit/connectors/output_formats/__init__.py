"""How rows look outside the log."""
