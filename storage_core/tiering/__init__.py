"""Tiering."""
