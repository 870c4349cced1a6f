"""Partitions of a worker: assigned, opened, started at an offset, quarantined, given back."""
