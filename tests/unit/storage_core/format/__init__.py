"""Tests of the room `format`, a file a module."""
