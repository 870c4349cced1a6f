"""The sparse index: entries that tell where in a shard the rows of an id begin."""
