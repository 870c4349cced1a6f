"""Opening a shard for writing: recovery, heads, what is accepted as lost."""
