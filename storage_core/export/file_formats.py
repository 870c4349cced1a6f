"""The file formats of exports, by name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from storage_core.avro import AvroSchema
from storage_core.export.avro_files import AvroFiles
from storage_core.export.json_lines import JsonLines
from storage_core.export.manifest import ExportedFile, Manifest
from storage_core.export.memory_budget import FILE_BYTES_MAX
from storage_core.export.parquet_files import ParquetFiles
from storage_core.parts.part_values import Writer


class FileFormat(Protocol):
    """Writes and reads the files of a row range. One thread at a time."""

    def write(
        self, directory: Path, stem: str, batches: Sequence[pa.RecordBatch]
    ) -> tuple[ExportedFile, ...]:
        """Write stored rows, at least one, in order of address, with their `schema` numbers.

        File names begin with `stem`. The files are durable on return, their names are not.
        """
        ...

    def read(self, data: bytes, file: ExportedFile) -> pa.Table:
        """Return the rows in a verified prefix of a file.

        Raises:
            TooLargeError: They would take more memory than they may.
            Exception: Any error of a library for bytes that no export wrote.
        """
        ...


def file_format_of(manifest: Manifest, bytes_max: int = FILE_BYTES_MAX) -> FileFormat:
    """Return the file format of an export, for its schemas.

    `bytes_max` is the memory limit for the rows of a file.
    """
    writers = [Writer(AvroSchema.stored(one.text), one.registry_id) for one in manifest.schemas]
    match manifest.file_format:
        case "parquet":
            return ParquetFiles(writers, has_keys=manifest.has_keys, bytes_max=bytes_max)
        case "avro":
            codec, has_keys = manifest.codec, manifest.has_keys
            return AvroFiles(writers, codec, has_keys=has_keys, bytes_max=bytes_max)
        case "jsonl":
            return JsonLines(writers, has_keys=manifest.has_keys, bytes_max=bytes_max)
