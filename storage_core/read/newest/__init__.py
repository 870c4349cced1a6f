"""Newest."""
