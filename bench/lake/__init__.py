"""Benchmarks of the lake: publishing, who sees it and when, reads of what only the lake has."""
