"""Write: one shard open for writing, from an entry to durable rows."""
