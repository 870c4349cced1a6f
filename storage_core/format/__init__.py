"""Format: every byte of a shard on disk beside the values it holds. Pure; opens nothing."""
