"""Unit tests: no process beside this one, no network, one claim a test."""
