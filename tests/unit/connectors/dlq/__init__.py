"""Tests of what becomes of dead letters."""
