"""The server over shards, measured: beside reading by path, and of which library it is made."""
