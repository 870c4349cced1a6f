"""Tidy tests: what the repository looks like, held by tests and not by memory.

Every check is a function that takes text and returns complaints, so that its own test can hand it
a bad example and see it fail; then it is run over the real files.
"""
