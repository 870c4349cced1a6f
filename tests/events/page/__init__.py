"""Scenarios of the page, in a real browser."""
