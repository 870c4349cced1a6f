"""Verify: reads all that a shard has on disk and compares it."""
