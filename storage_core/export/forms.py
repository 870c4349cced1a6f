"""The forms that an export can have, by their names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.export.avro_files import AvroFiles
from storage_core.export.bounds import FILE_BYTES_MAX
from storage_core.export.json_lines import JsonLines
from storage_core.export.manifest import ExportedFile, Manifest
from storage_core.export.parquet_files import ParquetFiles
from storage_core.parts.typed_columns import Writer


class Form(Protocol):
    """How the rows of a chunk are files. Whoever writes or reads one asks from one thread."""

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write rows, at least one, in order of address as they are stored, with their `schema`.

        The files' names begin with `stem`. They are durable on return, their names are not.
        """
        ...

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the plain rows of the first bytes of a file, up to a piece, which were proven.

        Raises:
            TooLargeError: They would take more memory than they may.
            Exception: Whatever bytes that no export wrote make of their reader.
        """
        ...


def form_of(manifest: Manifest, bytes_max: int = FILE_BYTES_MAX) -> Form:
    """Return the form of an export, for the schemas that it has.

    `bytes_max` is what the rows of a file that is read may take in memory.
    """
    writers = [Writer(AvroSchema.stored(one.text), one.registry_id) for one in manifest.schemas]
    match manifest.form:
        case "parquet":
            return ParquetFiles(writers, has_keys=manifest.has_keys, bytes_max=bytes_max)
        case "avro":
            codec, has_keys = manifest.codec, manifest.has_keys
            return AvroFiles(writers, codec, has_keys=has_keys, bytes_max=bytes_max)
        case "jsonl":
            return JsonLines(writers, has_keys=manifest.has_keys, bytes_max=bytes_max)
