"""Rows of a stream as files that other programs read, and back."""
