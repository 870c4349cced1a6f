"""Spark beside the log: a source that tails and reads shards, a sink that writes them once.

Jobs use it by name, `format("shardlog")`; `pyspark_shardlog` is where Spark finds it.
"""
