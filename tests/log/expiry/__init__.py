"""Expiry: what a stream no longer keeps goes, and nothing else does."""
