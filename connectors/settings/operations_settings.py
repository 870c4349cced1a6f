"""What operators are shown of a worker, and where: the sections `[metrics]` and `[log]`."""

from ipaddress import ip_address
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from connectors.settings.stream_settings import Section

LogLevel = Literal["debug", "info", "warning", "error"]

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
        message = f'{text!r} is no address; write host:port, as "127.0.0.1:9404"'
        raise ValueError(message)
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a host's address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in _LOOPBACK_NAMES


def _check_address(given: object) -> object:
    if given != "":
        split_address(str(given))
    return given


class MetricsSettings(Section):
    """Where metrics, health, version and settings are served.

    Attributes:
        listen: Host and port; port 0 takes a free one. Empty for nowhere.
        cluster: What the label `cluster_name` of the lag says.
        stalled_after_s: How long the worker's loop may be silent and still count as alive.
    """

    listen: Annotated[str, BeforeValidator(_check_address)] = ""
    cluster: str = "default"
    stalled_after_s: Annotated[float, Field(ge=1, le=3600)] = 60.0
