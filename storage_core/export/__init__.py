"""Export of a stream to files that other programs read, and import of these files.

A name is loaded when it is first asked for (platform/names_on_demand.py).
"""

from typing import TYPE_CHECKING, Final

from storage_core.platform.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from storage_core.export.exporting import ExportReport, export_stream
    from storage_core.export.importing import ImportReport, exported_rows, import_stream
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "exporting": ("ExportReport", "export_stream"),
            "importing": ("ImportReport", "exported_rows", "import_stream"),
        },
    )

__all__: Final = [
    "ExportReport",
    "ImportReport",
    "export_stream",
    "exported_rows",
    "import_stream",
]
