"""Unit tests of storage_core; each file mirrors a module. They speak the words of workbench.py."""
