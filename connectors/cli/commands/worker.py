"""`shardlog worker`: consume topics into shards until told to stop."""

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa
import typer

from connectors.cli.exit_codes import EXIT_AT_ONCE, exit_code_for, one_line
from connectors.cli.output.printing import print_line
from connectors.cli.version import installed_version
from connectors.ingest.start_checks import (
    check_files,
    check_streams,
    check_writable,
    raise_file_limit,
)
from connectors.ingest.status.line_output import LogFormat
from connectors.ingest.status.log_lines import open_log, tell_library_lines_left_out
from connectors.ingest.values.schema_checks import untried_topics
from connectors.ingest.worker import Worker
from connectors.kafka import check_settings
from connectors.monitoring.answers import Answers, WorkerInfo
from connectors.monitoring.listening import check_host
from connectors.monitoring.log_file import DailyFile, check_log_file
from connectors.monitoring.server import OperationsServer
from connectors.monitoring.stream_lags import stream_lags
from connectors.serve.server_child import ServerChild, check_serving
from connectors.settings.checks import BOOTSTRAP
from connectors.settings.loading import load_options
from connectors.settings.operations_settings import is_loopback
from connectors.settings.options import WorkerOptions
from storage_core import ShardlogError, SystemClock

_SWITCH_INTERVAL_S: Final = 0.000_5
_STATE_WITHIN_S: Final = 1.0
_COLLECT_AFTER: Final = (100_000, 20, 20)


def worker(
    *,
    config: Path | None,
    set_: list[str] | None,
    log_format: LogFormat | None,
    check: bool,
) -> int:
    """Consume Kafka topics into shards, exactly once, until SIGTERM, SIGHUP or Ctrl-C."""
    options = load_options(config, set_ or ())
    fetches_by = check_settings(options.kafka_settings, options.fetch)
    check_writable(options.root)
    if options.log.file is not None:
        check_log_file(options.log.file)
    # Read for each publish: here it is only refused where it has no options.
    options.lake.storage_options()
    check_files(sum(len(set(numbers)) for numbers in options.partitions.values()))
    _check_listening(options)
    if check:
        check_streams(options.root, sorted({*options.topics, *options.partitions}))
        for line in untried_topics(options):
            typer.echo(f"shardlog: {line}", err=True)
        print_line(json.dumps({**options.printable(), "fetches_by": fetches_by}, indent=2))
        return 0
    options.lake.hand_down(os.environ)
    tune_process()
    raise_file_limit()
    file = None if options.log.file is None else DailyFile(options.log.file, options.log.keep_days)
    log = open_log(log_format, options.log.levels, None if file is None else file.write)
    running = Worker(options, SystemClock(), log)
    stops = 0

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        if stops > 1:
            os._exit(EXIT_AT_ONCE)
        # Nothing is logged in here: the line it interrupts may hold the log's lock.
        running.stop(signal.Signals(number).name)

    signal.signal(signal.SIGUSR1, lambda *_: running.request_progress())
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Under nohup the end of the terminal is none of ours.
        signal.signal(signal.SIGHUP, stop)
    child = _serve_rows(options, log)
    try:
        code = _run_watched(options, running, fetches_by, log, child)
    finally:
        if child is not None:
            child.close()
    return end(code, running)


def _check_listening(options: WorkerOptions) -> None:
    """Refuse addresses and files with which nothing could be served; tell what clients refuse."""
    if options.metrics.listen:
        check_host(options.metrics.listen, "metrics.listen")
    if not options.serve.listen:
        return
    out_of_date = check_serving(options.root, options.serve, SystemClock())
    if out_of_date is not None:
        typer.echo(f"shardlog: {out_of_date}", err=True)


def _run_watched(
    options: WorkerOptions,
    running: Worker,
    fetches_by: str,
    log: Any,  # noqa: ANN401 - a structlog logger
    child: ServerChild | None,
) -> int:
    """Run a worker, with metrics and health if they are configured; return the exit code."""
    server = _serve(options, running, fetches_by, log, child)
    if child is not None:
        child.lags = partial(_lags_of, running)
    log.info(
        "started",
        version=installed_version(),
        brokers=options.kafka_settings[BOOTSTRAP],
        group=options.kafka_settings["group.id"],
        root=str(options.root),
        fetches_by=fetches_by,
    )
    try:
        return run_to_its_end(running, log)
    finally:
        if server is not None:
            server.close()


def _lags_of(running: Worker) -> Mapping[str, int]:
    """Return the lag of each stream; none of a worker that does not answer in time."""
    latest = running.latest_state
    state = None if latest.is_opening else latest.request(_STATE_WITHIN_S)
    return {} if state is None else stream_lags(state)


def _serve(
    options: WorkerOptions,
    running: Worker,
    fetches_by: str,
    log: Any,  # noqa: ANN401 - a structlog logger
    child: ServerChild | None,
) -> OperationsServer | None:
    """Serve metrics and health, if configured, and log the address."""
    if not options.metrics.listen:
        return None
    identity = WorkerInfo(
        version=installed_version(),
        fetches_by=fetches_by,
        group=str(options.kafka_settings["group.id"]),
        cluster=options.metrics.cluster,
        stalled_after_s=options.metrics.stalled_after_s,
        settings={**options.printable(), "fetches_by": fetches_by},
        root=options.root,
        served=None if child is None else lambda: child.state,
    )
    running.counts.measures_lateness = True
    answers = Answers(identity, running.latest_state)
    server = OperationsServer(options.metrics.listen, answers.of, answers.at_once)
    log.info("listening", address=server.address)
    if not is_loopback(server.host):
        log.warning(
            "listening to others",
            address=server.address,
            reason="anyone who reaches it sees metrics and settings: no password, no TLS",
        )
    return server


def _serve_rows(options: WorkerOptions, log: Any) -> ServerChild | None:  # noqa: ANN401 - as below
    """Have the streams served by a process beside this one, if configured."""
    section = options.serve
    if not section.listen:
        return None
    child = ServerChild(
        *(options.root, section, installed_version(), SystemClock(), log),
        has_page=options.page.enabled,
    )
    if child.is_open_to_others and section.anonymous:
        log.warning(
            "serving to others",
            address=child.address,
            reason="anyone who reaches it reads all streams: serve.anonymous",
        )
    if child.is_open_to_others and section.tls_cert is None:
        log.warning(
            "serving without TLS",
            address=child.address,
            reason="rows and tokens can be read on the way: serve.tls_cert, serve.tls_key",
        )
    return child


def run_to_its_end(running: Worker, log: Any) -> int:  # noqa: ANN401 - a structlog logger
    """Run a worker, log how it ended, and return the exit code."""
    try:
        running.run()
    except ShardlogError as error:
        # What the library still had to say stands above the line that a run ends with.
        tell_library_lines_left_out()
        code = exit_code_for(error)
        outcome = {"reason": one_line(error), "exit_code": code, **running.counts.totals}
        log.error("failed", **outcome)  # noqa: TRY400 - its text says what to do; a trace helps nobody
        return code
    tell_library_lines_left_out()
    log.info("stopped", **running.counts.totals)
    return 0


def end(code: int, running: Worker) -> int:
    """Return the exit code; where a thread hangs, end the process here, which would wait for it."""
    if running.is_left_hanging or running.is_left_asking:
        os._exit(code)
    return code


def tune_process() -> None:
    """Set the interpreter for a process that hands records on by the million; before threads begin.

    Messages, columns and rounds are freed by their counts; they form no cycles. With the defaults
    the collector walks them again and again, and a thread that comes back from a sync waits 5 ms
    for the interpreter, which is most of a round. Arrow's own pool keeps a worker 40 MB larger than
    the system's, and makes it no faster.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    pa.set_memory_pool(pa.system_memory_pool())
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
