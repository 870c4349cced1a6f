"""Heads: the newest row of each id, in memory and on disk."""
