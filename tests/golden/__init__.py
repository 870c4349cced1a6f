"""Committed stores: what an older shardlog wrote, this one reads row by row."""
