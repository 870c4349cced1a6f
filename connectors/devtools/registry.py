"""A real schema registry: Apicurio, everything in its memory.

It speaks the Confluent registry's protocol at its address. What was registered is gone when it
ends.
"""

from http.client import HTTPException
from typing import Final
from urllib.request import ProxyHandler, build_opener

from connectors.devtools.fetch import Bundle, fetched
from connectors.devtools.java import find_java
from connectors.devtools.ports import LOOPBACK
from connectors.devtools.server import Server, ServerKind

_VERSION: Final = "2.6.13.Final"
APICURIO: Final = Bundle(
    name=f"apicurio-registry-{_VERSION}",
    dependencies=f"""\
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{_VERSION}"
                transitive="false" conf="default->default">
      <artifact name="apicurio-registry-app" type="zip" ext="zip" m:classifier="all"/>
    </dependency>""",
    files=1,
    megabytes=139,
    sha256="7aa4f6a1990eee32d46ecc0cb5178ad58ea844ab641a15fc8893b036fb3a8482",
)
_ASK_MAX_S: Final = 5.0


def is_registry_answering(address: str) -> bool:
    """Tell whether a schema registry lists its subjects."""
    # A proxy for what is far away must not be asked for what is near.
    opener = build_opener(ProxyHandler({}))
    try:
        opener.open(f"{address}/subjects", timeout=_ASK_MAX_S).close()
    except (OSError, HTTPException, ValueError):
        return False
    return True


def _command(server: Server, ports: tuple[int, ...]) -> list[str]:
    jar = fetched(APICURIO) / f"apicurio-registry-app-{_VERSION}-runner.jar"
    (port,) = ports
    settings = {"quarkus.http.host": LOOPBACK, "quarkus.http.port": str(port), **server.settings}
    options = [f"-D{name}={value}" for name, value in settings.items()]
    jvm = ["-Xmx512m", "-XX:-UsePerfData", *server.jvm_options]
    return [str(find_java()), *jvm, *options, "-jar", str(jar)]


REGISTRY: Final = ServerKind(
    name="registry",
    variable="SCHEMA_REGISTRY_URL",
    address="http://{}/apis/ccompat/v7",
    command=_command,
    is_answering=is_registry_answering,
    # It loads far more classes than the broker, and takes several times as long on a busy machine.
    start_max_s=180.0,
)
