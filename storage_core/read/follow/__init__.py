"""Following a shard beside its writer, from another process."""
