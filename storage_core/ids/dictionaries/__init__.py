"""Dictionaries: what a shard numbers, and never tells the numbers of."""
