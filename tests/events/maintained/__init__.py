"""Queries beside what becomes of the rows: seals, trims, expiry, restarts, restores."""
