"""Rows of ingest from a real broker: rates, memory, latency, takeover; and other consumers."""
