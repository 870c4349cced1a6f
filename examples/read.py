"""Read records by id and time, the newest of each id, and all of them as they arrived.

Run it: python examples/read.py
"""

from tempfile import TemporaryDirectory

from storage_core import Stream, StreamOptions, StreamReader

# Event time in seconds, device, temperature. The third reading comes late, behind a newer one.
READINGS = [(100, 7, b"20.5"), (160, 7, b"22.0"), (130, 7, b"21.0"), (150, 8, b"18.0")]

with TemporaryDirectory() as root:
    with Stream.create(root, "readings", StreamOptions(shards=2, unit="s")) as stream:
        for time, device, temperature in READINGS:
            stream.append(time, device, temperature)
        stream.commit()

    # A reader sees committed records only, in this process or in any other.
    with StreamReader.open(root, "readings") as reader:
        # By id, then by event time; both ends of the range count. The answer is an Arrow table.
        table = reader.read(7, start=100, end=140)
        for row in table.select(["primary", "payload", "late"]).to_pylist():
            late = " (late)" if row["late"] else ""
            print(f"device 7 at {row['primary']} s: {row['payload'].decode()} degrees{late}")

        newest = reader.latest([7, 8])
        for device in (7, 8):
            print(f"newest of device {device}: {newest[device].primary} s")

        # A scan holds one batch in memory, whatever the stream's size.
        arrived = [time for batch in reader.scan() for time in batch["primary"].to_pylist()]
        print(f"as they arrived, shard by shard: {arrived}")
