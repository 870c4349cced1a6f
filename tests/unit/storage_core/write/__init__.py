"""Tests of the room `write`, a file a module."""
