"""Upkeep: what proves a shard beside its appends."""
