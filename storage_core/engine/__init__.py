"""The disk of one shard: RocksDB, segment files, commit marker, writer lock, open files."""
