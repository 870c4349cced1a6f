"""Scenarios of exports and imports."""
