"""Tests of the room `read`, a file a module."""
