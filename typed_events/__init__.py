"""Typed events over the shards of a root: facts in by a line of text, stories and slices out."""
