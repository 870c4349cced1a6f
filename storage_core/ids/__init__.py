"""What a shard knows of its ids: heads, the sparse index, dictionaries of keys and schemas."""
