"""Executor."""
