"""The lake's values: targets, ids, columns, names of files."""
