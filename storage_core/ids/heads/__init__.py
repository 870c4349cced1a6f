"""Heads: the newest of each id, in memory and on disk."""
