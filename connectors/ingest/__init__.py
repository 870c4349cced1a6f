"""From the topics a worker is given to durable shards: the loop, its rounds, what it holds."""
