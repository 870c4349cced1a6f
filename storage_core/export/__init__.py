"""Export of a stream to files that other programs read, and import of these files.

A name is loaded when it is first asked for (platform/lazy_exports.py).
"""

from typing import TYPE_CHECKING, Final

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from storage_core.export.exporting import ExportReport, export_stream
    from storage_core.export.importing import ImportReport, exported_rows, import_stream
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "exporting": ("ExportReport", "export_stream"),
            "importing": ("ImportReport", "exported_rows", "import_stream"),
        },
        extra="store",
    )

__all__: Final = [
    "ExportReport",
    "ImportReport",
    "export_stream",
    "exported_rows",
    "import_stream",
]
