"""The lake: a stream's Delta table in a directory and on an object store."""
