"""docs/MODULES.md is what `make docs` writes."""

from tests.tidy.documents.module_list import LIST, module_list
from tests.tidy.tree import product_files

SOURCES = {
    "storage_core/__init__.py": '"""The log."""',
    "storage_core/errors.py": '"""Every error.\n\nMore of it.\n"""',
    "storage_core/read/__init__.py": '"""Reads."""',
    "storage_core/read/scan.py": '"""Scans: `a | b`."""',
    "connectors/__init__.py": '"""Kafka."""',
    "top.py": '"""Beside them."""',
}
PAGE = """
## `storage_core/`

The log.

| module | what it is for |
|---|---|
| `errors.py` | Every error. |

## `storage_core/read/`

Reads.

| module | what it is for |
|---|---|
| `scan.py` | Scans: `a \\| b`. |

## `connectors/`

Kafka.

## Beside the packages

| module | what it is for |
|---|---|
| `top.py` | Beside them. |
"""


def test_list_of_modules_is_what_make_docs_writes() -> None:
    written = LIST.read_text(encoding="utf-8")
    assert written == module_list(product_files()), "docstrings have changed: run `make docs`"


def test_list_has_a_table_for_each_room() -> None:
    assert module_list(SOURCES).endswith(PAGE)
