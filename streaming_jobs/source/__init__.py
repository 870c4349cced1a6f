"""The source: a stream's offsets, the tasks over them, and the rows that tasks hand to Spark."""
