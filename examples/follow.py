"""Follow a shard while a writer appends to it: wait, read what is new, go on behind it.

Run it: python examples/follow.py
"""

from tempfile import TemporaryDirectory
from threading import Thread

from storage_core import State, Stream, StreamOptions, StreamReader

TIMES_MS = (1000, 2000, 3000, 1500, 4000)
WAIT_MAX_S = 30


def write(root: str) -> None:
    """Append and commit one record after the other; usually another process does so."""
    with Stream.open(root, "readings") as stream:
        for time_ms in TIMES_MS:
            stream.append(time_ms, 7, b"a reading")
            stream.commit()


with TemporaryDirectory() as root:
    Stream.create(root, "readings", StreamOptions(shards=1)).close()
    writer = Thread(target=write, args=(root,))
    writer.start()

    with StreamReader.open(root, "readings") as reader:
        # Addresses are places in a shard, as offsets are in a partition. `address` is the next one
        # to read; a program that keeps it goes on there after a restart.
        address = 0
        while address < len(TIMES_MS) and reader.wait(0, address, timeout=WAIT_MAX_S):
            end = reader.refresh()[0]
            for batch in reader.tail(0, address, end):
                for row in batch.to_pylist():
                    late = ", late" if row["state"] == State.LATE else ""
                    print(f"address {row['address']}: {row['primary']} ms{late}")
            address = end
    writer.join()
    print(f"next address: {address}")
