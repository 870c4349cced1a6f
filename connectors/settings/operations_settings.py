"""What operators are shown of a worker, and where: the sections `[metrics]` and `[log]`."""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from connectors.settings.stream_settings import Section

LogLevel = Literal["debug", "info", "warning", "error"]

# Each is a file that tells lines; but for these two, which stand for librdkafka and for all others.
ALL_LOGGERS: Final = "all"
LIBRARY_LOGGER: Final = "librdkafka"
LOGGERS: Final = (
    ALL_LOGGERS,
    LIBRARY_LOGGER,
    "assignment",
    "assignment_watch",
    "broker_watch",
    "dead_letter_policy",
    "dead_letter_watch",
    "expiry_timer",
    "lake_shards",
    "lake_timer",
    "last_publish",
    "maintenance_timer",
    "other_owners",
    "partition_faults",
    "progress",
    "quarantine",
    "round_results",
    "schema_waits",
    "server_child",
    "shard_births",
    "shard_opening",
    "worker",
)

_PORT_MAX: Final = 65_535
_LOOPBACK_NAMES: Final = ("localhost", "ip6-localhost")


def split_address(text: str) -> tuple[str, int]:
    """Return the host and the port of an address, as `127.0.0.1:9404` or `[::1]:9404`.

    Raises:
        ValueError: It is none.
    """
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_whole = bool(bare) and (":" not in bare or host != bare)
    if not is_whole or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
        message = f'{text!r} is not an address; write host:port, as "127.0.0.1:9404"'
        raise ValueError(message)
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    """Return the address of a host and a port, as `split_address` takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host's address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() in _LOOPBACK_NAMES


def check_address(address: object) -> object:
    """Return what names where to listen, or is empty; refuse all else."""
    if address != "":
        split_address(str(address))
    return address


def check_file_name(file: object) -> object:
    """Refuse a file whose name is the empty text; as a path it would be the current directory."""
    if file == "":
        message = "is empty; name a file, or leave it out"
        raise ValueError(message)
    return file


FileName = Annotated[Path, BeforeValidator(check_file_name)]


class MetricsSettings(Section):
    """Where metrics, health, version and settings are served.

    Attributes:
        listen: Host and port; port 0 takes a free one. Empty for nowhere.
        cluster: What the label `cluster_name` of the lag says.
        stalled_after_s: How long the worker's loop may be silent and still count as alive.
    """

    listen: Annotated[str, BeforeValidator(check_address)] = ""
    cluster: str = "default"
    stalled_after_s: Annotated[float, Field(ge=1, le=3600)] = 60.0


def _check_levels(levels: object) -> object:
    unknown = sorted(set(levels) - set(LOGGERS)) if isinstance(levels, Mapping) else []
    if unknown:
        message = f"{', '.join(map(repr, unknown))}: no such logger; there are {', '.join(LOGGERS)}"
        raise ValueError(message)
    return levels


class LogSettings(Section):
    """Where the worker's lines go beside standard error, and which are told.

    Attributes:
        file: A file that takes them as JSON, a new one each day; it belongs to this worker alone.
        keep_days: How many days before are kept.
        levels: The least level that is told, by logger; `all` stands for those not named.
    """

    file: FileName | None = None
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 14
    levels: Annotated[dict[str, LogLevel], BeforeValidator(_check_levels)] = Field(
        default_factory=dict
    )
