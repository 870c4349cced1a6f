"""The lake: what of it needs no store."""
