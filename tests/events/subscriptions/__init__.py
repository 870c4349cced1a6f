"""Scenarios of SUBSCRIBE: live events behind stored ones."""
