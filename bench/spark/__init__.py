"""Rows of the Spark source and sink: rates, small micro-batches, latency, a worker's memory."""
