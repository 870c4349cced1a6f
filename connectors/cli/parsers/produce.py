"""Arguments and options of `shardlog produce`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from connectors.cli.parsing.options import BOOTSTRAP_DEFAULT, Bootstrap, KafkaSettings
from connectors.cli.parsing.work import done_in

PARTITIONS_DEFAULT: Final = 4
# The most the Kafka client asks for.
_PARTITIONS_MAX: Final = 100_000

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", show_default=False)]

Records = Annotated[int, typer.Option(metavar="N", help="How many records.")]

Devices = Annotated[int, typer.Option(metavar="N", help="How many devices.")]

Rate = Annotated[
    float | None,
    typer.Option(metavar="R", help="Records a second; without it, as fast as possible."),
]
Skew = Annotated[
    float,
    typer.Option(metavar="X", help="0: all devices report equally often; 1: a few report most."),
]
LateShare = Annotated[
    float,
    typer.Option(metavar="X", help="Share of records that lie below one before of their device."),
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed makes the same records.")]

ValueBytes = Annotated[int, typer.Option(metavar="N", help="Bytes of a value.")]

StartMs = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        help="Timestamp of the first record; without it the first (with --rate) or else the last "
        "record is about now.",
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=_PARTITIONS_MAX,
        help=f"Partitions of the topic if it is created; {PARTITIONS_DEFAULT} unless given.",
    ),
]
Create = Annotated[
    bool, typer.Option("--create/--no-create", help="Create the topic if it is not there.")
]
Lines = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Instead of telemetry produce the JSON lines of a file, - for standard input; each "
        "an object of value and optionally key, timestamp, headers.",
    ),
]
Avro = Annotated[
    bool,
    typer.Option(
        "--avro",
        help="Write values by the latest schema of the subject, framed by its id; telemetry has "
        "device, seq, temperature and at.",
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="SCHEMA_REGISTRY_URL",
        help="Address of the schema registry, for --avro.",
    ),
]
RegistryConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file whose table [schema.registry] says how to reach it, for --avro.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The subject, for --avro; TOPIC-value unless given."),
]
BadShare = Annotated[
    float,
    typer.Option(
        metavar="X", help="Share of values that no schema wrote, for --avro: to try dead letters."
    ),
]


@done_in("connectors.cli.commands.produce")
def produce(  # noqa: PLR0913 - one parameter an option
    topic: Topic,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    records: Records = 100_000,
    devices: Devices = 1000,
    rate: Rate = None,
    skew: Skew = 0.0,
    late_share: LateShare = 0.0,
    seed: Seed = 0,
    value_bytes: ValueBytes = 100,
    start_ms: StartMs = None,
    partitions: Partitions = None,
    create: Create = True,
    lines: Lines = None,
    avro: Avro = False,
    registry: Registry = None,
    config: RegistryConfig = None,
    subject: Subject = None,
    bad_share: BadShare = 0.0,
    kafka: KafkaSettings = None,
) -> None:
    """Produce telemetry, or JSON lines, to a Kafka topic.

    Example: shardlog produce telemetry --records 1000000 --late-share 0.02
    """
