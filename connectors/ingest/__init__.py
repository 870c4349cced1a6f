"""The worker: from assigned partitions to durable shards, one commit round after the other."""
