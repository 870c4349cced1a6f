"""Tests of the room `upkeep`, a file a module."""
