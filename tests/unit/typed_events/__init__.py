"""Tests of typed events: the language, the rules of types."""
