"""Tests against a real broker and a real registry; conftest.py says where they come from."""
