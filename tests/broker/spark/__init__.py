"""From Kafka to Spark: rows, typed values and the ledger of the whole chain."""
