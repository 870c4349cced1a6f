"""Tests of what commands and workers share of a group."""
