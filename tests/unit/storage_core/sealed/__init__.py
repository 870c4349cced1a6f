"""Tests of the room `parts`, a file a module."""
