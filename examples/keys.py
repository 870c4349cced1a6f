"""Store records under keys of any bytes, read them by key, and read the newest of each key.

Run it: python examples/keys.py
"""

from tempfile import TemporaryDirectory

import pyarrow as pa

from storage_core import Stream, StreamOptions, StreamReader

# A payload of None is a tombstone: it deletes its key, as in a compacted topic.
USERS = pa.table(
    {
        "primary": [1000, 2000, 3000, 4000],
        "key": [b"ann", b"bob", b"ann", b"bob"],
        "payload": [b"Ann in Oslo", b"Bob in Rome", b"Ann in Bonn", None],
    }
)

with TemporaryDirectory() as root:
    with Stream.create(root, "users", StreamOptions(key_mode="dictionary")) as stream:
        report = stream.append_batch(USERS)
        stream.commit()
        print(f"appended {report.appended} records")

    with StreamReader.open(root, "users") as reader:
        history = reader.read(keys=b"ann", columns=["payload"])["payload"].to_pylist()
        print(f"all of ann: {history}")

        newest = reader.read(latest_by="key", columns=["key", "payload"]).to_pylist()
        print(f"newest of each key: {newest}")

        deleted = reader.read(keys=b"bob", latest_by="key", tombstones=True)
        print(f"bob is a tombstone: {deleted['payload'].to_pylist() == [None]}")
