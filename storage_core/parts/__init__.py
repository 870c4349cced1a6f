"""One Parquet part (footer, row groups, columns) and the part list of a shard at one moment."""
