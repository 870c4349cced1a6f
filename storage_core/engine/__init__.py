"""Store: the disk of one shard. RocksDB by one door, the marker file, limits of the process."""
