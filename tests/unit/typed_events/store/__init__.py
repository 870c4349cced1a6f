"""Tests of storing: counts of contexts, endings that are waited for."""
