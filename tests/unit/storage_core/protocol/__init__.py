"""Tests of the room `protocol`, a file a module."""
