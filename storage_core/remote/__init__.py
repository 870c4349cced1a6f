"""The client of a server: addresses, connections, calls, and a shard that is asked over them.

It needs pyarrow and the standard library. `remote_reader.py` makes a `StreamReader` of it.
"""
