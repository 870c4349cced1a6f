"""Export a stream to files with a manifest, and import it elsewhere, address by address.

Run it: python examples/export.py
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from storage_core import Stream, StreamOptions, StreamReader
from storage_core.export import export_stream, import_stream

with TemporaryDirectory() as place:
    root, files, copy = (Path(place) / name for name in ("root", "files", "copy"))
    with Stream.create(root, "readings", StreamOptions(shards=1)) as stream:
        for number in range(1000):
            stream.append(1000 * number, number % 10, b"%d" % number)
        stream.commit()

    # Parquet, Avro or JSON lines. The directory appears when it is complete.
    exported = export_stream(root, "readings", files, file_format="jsonl")
    print(f"exported {exported.rows} rows")
    manifest = json.loads((files / "manifest.json").read_text())
    print(f"the manifest names stream {manifest['stream']!r} and {manifest['rows']} rows")

    imported = import_stream(copy, "readings", files)
    print(f"imported {imported.rows} rows")
    again = import_stream(copy, "readings", files)
    print(f"imported again: {again.rows} rows more, {again.rows_before} were there")

    with (
        StreamReader.open(root, "readings") as original,
        StreamReader.open(copy, "readings") as other,
    ):
        print(f"the copy has the same rows: {original.read().equals(other.read())}")
