"""Tests of the room `catalog`, a file a module."""
