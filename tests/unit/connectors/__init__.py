"""Unit tests of connectors; each file mirrors a module. No broker, no network."""
