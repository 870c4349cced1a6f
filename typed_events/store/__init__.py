"""The store: one writer of all event streams of a root, which commits in groups."""
