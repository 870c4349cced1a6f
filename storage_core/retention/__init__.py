"""Retention: expiry by time and by size, and the removal of expired rows."""
