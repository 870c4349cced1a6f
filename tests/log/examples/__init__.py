"""The programs of examples/ over a log alone."""
