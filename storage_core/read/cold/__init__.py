"""Rows that only parts have: by id and time, by address, and as blocks of the log."""
