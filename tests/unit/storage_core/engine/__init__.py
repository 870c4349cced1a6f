"""Tests of the room `store`, a file a module."""
