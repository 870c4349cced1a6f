"""Publishing in a worker: when a shard is published, what came of it, and what is not yet."""
