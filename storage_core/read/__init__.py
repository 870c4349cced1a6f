"""Read: snapshots of one shard, from any process."""
