"""Read: one shard at one moment, from any process."""
