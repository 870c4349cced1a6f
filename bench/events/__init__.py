"""Benchmarks of typed events."""
