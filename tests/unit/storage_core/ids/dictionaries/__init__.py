"""Tests of the room `dictionaries`, a file a module."""
