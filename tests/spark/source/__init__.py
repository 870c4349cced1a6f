"""The source through Spark: batches and queries over streams."""
