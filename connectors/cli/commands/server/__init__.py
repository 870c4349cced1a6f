"""What a server over shards runs as: `shardlog serve`."""
