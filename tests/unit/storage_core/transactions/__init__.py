"""Tests of the room `transactions`, a file a module."""
