"""`make docs`: writes what documents take from docstrings, the list of modules and steps."""

from tests.tidy.documents.module_list import LIST, module_list
from tests.tidy.documents.numbered_steps import with_steps
from tests.tidy.tree import ROOT, product_files

FAILURES = ROOT / "docs/FAILURES.md"

LIST.write_text(module_list(product_files()), encoding="utf-8")
FAILURES.write_text(with_steps(FAILURES.read_text(encoding="utf-8")), encoding="utf-8")
