"""Dictionaries: the numbers of keys and schemas in a shard; nobody outside sees one."""
