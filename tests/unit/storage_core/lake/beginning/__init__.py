"""Unit tests of logs that begin from their table."""
