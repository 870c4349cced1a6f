"""docs/SERVER.md has the calls, the metrics and the bounds that the server has, and no others."""

import re
from dataclasses import fields
from inspect import signature

from connectors.cli.parsers.server.serve import serve
from connectors.serve.figures import Figures
from connectors.serve.settings import LISTEN_DEFAULT, Bounds, settings_beside_worker
from connectors.settings.serve_settings import WorkerServeSettings
from storage_core.protocol import CALLS, Call
from tests.tidy.tree import ROOT

PAGE = (ROOT / "docs/SERVER.md").read_text(encoding="utf-8")
_OPTION = re.compile(r"`(--[a-z-]+)")


def rows_under(heading: str) -> list[list[str]]:
    """Return the cells of each line of the first table under a heading, but its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = section.partition("|---")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def documented(call: Call) -> list[str]:
    """Return the line of a call."""
    parameters = [
        f"`{parameter.name}`" + ("" if parameter.is_required else "?")
        for parameter in call.parameters
    ]
    return [f"`{call.name}`", call.answer, call.about, ", ".join(parameters) or "none"]


def test_table_of_calls_is_that_of_the_protocol() -> None:
    rows = [[cell.strip("| ") for cell in row] for row in rows_under("Calls")]
    assert rows == [documented(call) for call in CALLS.values()]


def test_table_of_metrics_is_that_of_the_server(tmp_path) -> None:
    figures = Figures("1", tmp_path)
    figures.gauges = dict.fromkeys(
        (
            *(
                "connections",
                "storing_connections",
                "line_connections",
                "subscriptions",
                "answers",
                "held_bytes",
                "body_bytes",
                "waits",
                "streams",
            ),
            *("stagings", "landings"),
        ),
        lambda: 0,
    )
    figures.certificate_expires_s = lambda: 0.0
    names = {
        family.name for family in figures.families() if family.name.startswith("shardlog_")
    } - {"shardlog_disk_size_bytes", "shardlog_disk_free_bytes"}
    assert {row[0].strip("| `") for row in rows_under("Watch")} == names


def test_every_option_of_the_command_is_named_and_every_bound_has_a_line() -> None:
    options = {
        f"--{name.replace('_', '-')}"
        for name in signature(serve).parameters
        if name not in ("root", "read_tokens", "write_tokens")
    } | {"--read-token-file", "--write-token-file"}
    assert set(_OPTION.findall(PAGE)) == options
    # Four have none of their own: a queue, a client that stalls, or for how long it is slow, and
    # the end of the server.
    assert len(rows_under("Bounds")) == len(fields(Bounds)) - 4


def test_command_and_worker_serve_by_the_bounds_of_the_server() -> None:
    of_command = {name: one.default for name, one in signature(serve).parameters.items()}
    of_worker = {name: one.default for name, one in WorkerServeSettings.model_fields.items()}
    shared = [name for name in of_worker if name.endswith("_max")]
    assert {name: of_command[name] for name in shared} == {name: of_worker[name] for name in shared}
    assert (
        settings_beside_worker(ROOT, WorkerServeSettings(listen=LISTEN_DEFAULT)).bounds == Bounds()
    )
    assert of_command["stage_mib_max"] * 2**20 == Bounds().staged_bytes
