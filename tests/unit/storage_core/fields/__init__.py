"""Schemas, bodies and columns."""
