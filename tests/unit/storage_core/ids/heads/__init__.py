"""Tests of the room `heads`, a file a module."""
