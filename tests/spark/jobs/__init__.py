"""The jobs, and drivers of all kinds that are killed: the second group (tests/groups.py)."""
