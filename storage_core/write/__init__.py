"""Write: one shard open for writing, from an entry to what is durable and shown."""
