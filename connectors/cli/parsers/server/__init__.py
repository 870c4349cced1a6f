"""Arguments and options of a server over shards."""
