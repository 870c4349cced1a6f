"""Store: the disk of one shard. RocksDB by one door, the marker file, what is taken from outside."""
