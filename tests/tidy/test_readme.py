"""README.md runs: the quickstart alone, printing what stands below it; then all snippets in order.

Snippets are the fenced `python` blocks; the `text` block of the quickstart is what it prints.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.tree import ROOT

QUICKSTART_LINES_MAX = 15
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """Return what stands below a heading of the second level."""
    return re.split(r"^## ", text.split(f"\n## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def fenced(text: str, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return [body for name, body in FENCED.findall(text) if name == language]


def run(program: str, folder: Path) -> str:
    """Run a program in a fresh interpreter; return what it prints."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_quickstart_runs_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    quickstart = section(readme(), "Quickstart")
    (program,), (printed,) = fenced(quickstart, "python"), fenced(quickstart, "text")
    assert len(program.splitlines()) <= QUICKSTART_LINES_MAX
    assert run(program, tmp_path) == printed


def test_every_snippet_runs_behind_the_quickstart(tmp_path: Path) -> None:
    programs = fenced(readme(), "python")
    assert len(programs) > 1
    run("\n".join(programs), tmp_path)


def test_fenced_blocks_are_told_apart_by_language() -> None:
    text = "# A\n\n## B\n```python\nx = 1\n```\n```text\n1\n```\n## C\n```python\ny\n```\n"
    assert fenced(section(text, "B"), "python") == ["x = 1\n"]
    assert fenced(section(text, "B"), "text") == ["1\n"]
    assert fenced(text, "python") == ["x = 1\n", "y\n"]
