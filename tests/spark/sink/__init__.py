"""The sink through Spark: batch writes, queries that write, tables."""
