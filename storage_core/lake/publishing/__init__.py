"""What `publish_shard` is made of: what a step changes, and what was done."""
