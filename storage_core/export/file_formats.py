"""The file formats of exports, by name.

Each has `write`, which writes the stored rows of a range to durable files, and `read`, which
returns the rows in a verified prefix of a file. `read` raises TooLargeError for rows that would
exceed the memory limit, and any error of a library for bytes that no export wrote. One thread at a
time.
"""

from storage_core.avro import AvroSchema
from storage_core.export.avro_files import AvroFiles
from storage_core.export.export_rows import ExportContext
from storage_core.export.json_lines import JsonLines
from storage_core.export.manifest import Manifest
from storage_core.export.memory_budget import FILE_BYTES_MAX
from storage_core.export.parquet_files import ParquetFiles
from storage_core.parts.typed_columns import Writer

FileFormat = ParquetFiles | AvroFiles | JsonLines


def file_format_of(manifest: Manifest, bytes_max: int = FILE_BYTES_MAX) -> FileFormat:
    """Return the file format of an export; `bytes_max` limits the memory of a file's rows."""
    writers = [
        Writer(AvroSchema.stored(entry.text), entry.registry_id) for entry in manifest.schemas
    ]
    context = ExportContext(writers, manifest.has_keys, bytes_max)
    match manifest.file_format:
        case "parquet":
            return ParquetFiles(context)
        case "avro":
            return AvroFiles(context, manifest.codec)
        case "jsonl":
            return JsonLines(context)
