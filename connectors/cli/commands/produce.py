"""`shardlog produce`: generated records or JSON lines into a Kafka topic, as text or Avro.

However it ends, what was sent is flushed, in bounded time, and one line says how much of it was
acknowledged; then an error is raised, if there was one.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final

import typer

from connectors import kafka as kafka_client
from connectors.cli.input.arguments import kafka_settings
from connectors.cli.input.avro_values import as_avro, corrupt_some
from connectors.cli.input.generated_records import TelemetryPlan, generated_records
from connectors.cli.input.record_lines import Outgoing, records_from
from connectors.cli.input.schema_arguments import registry_client
from connectors.cli.output.formatting import nouns, were
from connectors.cli.output.printing import print_line
from connectors.cli.output.progress_bar import progress_bar
from connectors.cli.parsers.produce import PARTITIONS_DEFAULT
from storage_core import BrokerUnavailableError, Environment, InvalidRequestError

_BATCH_RECORDS: Final = 1000
_BROKER_WAIT_S: Final = 10.0
# Longer than the Kafka client keeps a record before it calls it failed.
_FLUSH_WAIT_S: Final = 150.0
_FLUSH_STEP_S: Final = 0.2
_RATE_STEP_S: Final = 0.1
_TOPIC_WAIT_SETTING: Final = "topic.metadata.propagation.max.ms"
_TOPIC_WAIT_MS_DEFAULT: Final = 30_000


def produce(  # noqa: PLR0913 - one parameter an option
    *,
    topic: str,
    bootstrap: str,
    records: int,
    devices: int,
    rate: float | None,
    skew: float,
    late_share: float,
    seed: int,
    value_bytes: int,
    start_ms: int | None,
    partitions: int | None,
    create: bool,
    lines: str | None,
    avro: bool,
    registry: str | None,
    config: Path | None,
    subject: str | None,
    bad_share: float,
    kafka: list[str] | None,
) -> None:
    """Produce telemetry, or JSON lines, to a Kafka topic."""
    schema_from = None
    if avro:
        client = registry_client(registry, config, None)
        # No request yet: the other options are checked first.
        schema_from = partial(client.latest, subject or f"{topic}-value")
    elif subject is not None or config is not None or bad_share:
        message = "--subject, --config and --bad-share go with --avro"
        raise InvalidRequestError(message)
    if not 0 <= bad_share <= 1:
        message = f"--bad-share: {bad_share} is not from 0 to 1"
        raise InvalidRequestError(message)
    run = _Run(topic, rate)
    plan = TelemetryPlan(
        records,
        devices=devices,
        skew=skew,
        late_share=late_share,
        rate=rate,
        seed=seed,
        value_bytes=value_bytes,
    )
    first_ms = run.now_ms - (plan.span_ms if rate is None else 0) if start_ms is None else start_ms
    plan = replace(plan, start_ms=first_ms)
    settings = kafka_settings(kafka)
    with ExitStack() as files:
        outgoing = generated_records(plan) if lines is None else files.enter_context(_opened(lines))
        if schema_from is not None:
            outgoing = as_avro(outgoing, schema_from())
            outgoing = corrupt_some(outgoing, bad_share, seed) if bad_share else outgoing
        producer = kafka_client.Producer(bootstrap, settings)
        admin = kafka_client.Admin({**settings, "bootstrap.servers": bootstrap})
        notice = None
        admin.await_broker(_BROKER_WAIT_S)
        # Made before the topic is: values that cannot be written at all leave none behind.
        outgoing = chain(list(islice(outgoing, 1)), outgoing)
        if not create:
            notice = notice_of_missing(topic, admin.partitions(), settings, run.now_ms)
        elif not admin.create_topic(topic, partitions or PARTITIONS_DEFAULT, {}) and partitions:
            notice = notice_of_partitions(topic, admin.partitions().get(topic), partitions)
        if notice is not None:
            typer.echo(f"shardlog: {notice}", err=True)
        run.through(producer, outgoing, plan.records if lines is None else None)


def notice_of_missing(
    topic: str, topics: Collection[str], settings: Mapping[str, str], now_ms: int
) -> str | None:
    """Return a notice for a missing topic: the Kafka client waits for it silently."""
    if topic in topics:
        return None
    wait_ms = int(settings.get(_TOPIC_WAIT_SETTING, _TOPIC_WAIT_MS_DEFAULT))
    until = datetime.fromtimestamp((now_ms + wait_ms) / 1000, UTC)
    return (
        f"topic {topic!r} does not exist; waiting for it until {until:%H:%M:%S} UTC "
        f"({wait_ms / 1000:g} s)"
    )


def notice_of_partitions(topic: str, existing: int | None, requested: int) -> str | None:
    """Return a notice for a topic that exists with another number of partitions."""
    if existing in (None, requested):
        return None
    return f"topic {topic!r} has {existing} partitions already; --partitions {requested} is ignored"


class _Run:
    """One run of the command, and what it counts."""

    def __init__(self, topic: str, rate: float | None) -> None:
        self._topic = topic
        self._rate = rate
        self._clock = Environment().clock
        self._records = 0
        self._bytes = 0

    @property
    def now_ms(self) -> int:
        return self._clock.now_ns() // 10**6

    def through(
        self, producer: kafka_client.Producer, outgoing: Iterator[Outgoing], total: int | None
    ) -> None:
        """Send everything and print how much was acknowledged."""
        started_s = self._clock.monotonic_s()
        try:
            # Leaving the producer flushes, in bounded time, whatever ended the sending.
            with progress_bar(total) as show, producer:
                self._send(producer, outgoing, show, started_s)
        finally:
            seconds = self._clock.monotonic_s() - started_s
            done = producer.acknowledged
            print_line(
                # Scripts read the numbers of this line.
                f"{done} {nouns(done, 'record')} acknowledged, {self._bytes} bytes sent, "
                f"{seconds:.2f} s, {done / max(seconds, 1e-6):.0f} records/s"
            )
        unanswered = self._records - done
        if unanswered:
            reason = producer.first_failure or "no answer in time"
            all_of_them = f"{self._records} {nouns(self._records, 'record')}"
            message = f"{unanswered} of {all_of_them} {were(unanswered)} not acknowledged: {reason}"
            raise BrokerUnavailableError(message)

    def _send(
        self,
        producer: kafka_client.Producer,
        outgoing: Iterator[Outgoing],
        show: Callable[[int], None],
        started_s: float,
    ) -> None:
        rate = self._rate
        a_step = _BATCH_RECORDS if rate is None else int(rate * _RATE_STEP_S)
        step = max(1, min(a_step, _BATCH_RECORDS))
        for key, value, timestamp_ms, headers in outgoing:
            producer.send(self._topic, key, value, timestamp_ms, headers)
            self._records += 1
            self._bytes += len(key or b"") + len(value or b"")
            if self._records % step == 0:
                producer.poll()
                show(producer.acknowledged)
                if rate is not None:
                    left_s = started_s + self._records / rate - self._clock.monotonic_s()
                    self._clock.sleep(max(left_s, 0.0))
        deadline = self._clock.monotonic_s() + _FLUSH_WAIT_S
        while producer.flush(_FLUSH_STEP_S) and self._clock.monotonic_s() < deadline:
            show(producer.acknowledged)


@contextmanager
def _opened(lines: str) -> Iterator[Iterator[Outgoing]]:
    if lines == "-":
        yield records_from(sys.stdin.buffer)
        return
    path = Path(lines)
    try:
        file: BinaryIO = path.open("rb")
    except OSError as error:
        message = f"--lines: {error.strerror}"
        raise InvalidRequestError(message, path=path) from error
    with file:
        yield records_from(file)
