"""Kafka in, shards out: the worker, its command line, a broker to try it with."""
