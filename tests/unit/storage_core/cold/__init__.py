"""Tests of looks at streams for SQL."""
