"""The parts of the sparse index."""
