"""Tests of the room `ground`, a file a module."""
