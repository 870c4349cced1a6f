"""The server over the shards of a root: HTTP, rows as Arrow streams."""
