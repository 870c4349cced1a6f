"""Verify."""
