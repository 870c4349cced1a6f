"""What the dev stack fetches: coordinates in Maven Central and checksums.

The checksums of the main artifacts stand here; those of all files are kept beside them when
they have been fetched (manifest.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

KAFKA_VERSION: Final = "4.1.1"
REGISTRY_VERSION: Final = "2.6.13.Final"

_IVY_FILE: Final = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="shardlog" module="dev-stack"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Artifacts that are fetched and kept together.

    Attributes:
        name: Name and version; the directory they are kept in.
        dependencies: The `dependency` elements of an Ivy file.
        types: The artifact types that Ivy retrieves.
        files: How many files that makes.
        megabytes: How much is fetched, roughly; for the progress bar.
        sha256: Checksums of the main files by their names.
    """

    name: str
    dependencies: str
    types: tuple[str, ...]
    files: int
    megabytes: int
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def ivy_file(self) -> str:
        """Return the Ivy file that asks for the artifacts."""
        return _IVY_FILE.format(dependencies=self.dependencies)


KAFKA: Final = Bundle(
    name=f"kafka-{KAFKA_VERSION}",
    # The broker's own dependencies name no logger: without one it dies in silence.
    dependencies=f"""\
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}"
                conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3"
                conf="default->default"/>""",
    # scala-logging is packed as a bundle.
    types=("jar", "bundle"),
    files=46,
    megabytes=45,
    sha256={
        f"kafka_2.13-{KAFKA_VERSION}.jar": (
            "e89428126cc7630a802123ba27aac4442816840b66d60670226feaff65f24fd1"
        ),
        f"kafka-clients-{KAFKA_VERSION}.jar": (
            "00247122a572c3d3ae4eb60a50192a5811bc0181f51923d13018600f892e821d"
        ),
        f"kafka-server-{KAFKA_VERSION}.jar": (
            "9f6aff422855491aad54326eca8d604163d6d3a6507cc48ffe3ce6de73caf79a"
        ),
        "log4j-core-2.24.3.jar": (
            "7eb4084596ae25bd3c61698e48e8d0ab65a9260758884ed5cbb9c6e55c44a56a"
        ),
        "scala-library-2.13.16.jar": (
            "1ebb2b6f9e4eb4022497c19b1e1e825019c08514f962aaac197145f88ed730f1"
        ),
    },
)

REGISTRY: Final = Bundle(
    name=f"apicurio-registry-{REGISTRY_VERSION}",
    dependencies=f"""\
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{REGISTRY_VERSION}"
                transitive="false" conf="default->default">
      <artifact name="apicurio-registry-app" type="zip" ext="zip" m:classifier="all"/>
    </dependency>""",
    types=("zip",),
    files=1,
    megabytes=139,
    sha256={
        f"apicurio-registry-app-{REGISTRY_VERSION}-all.zip": (
            "d88014c1addff1fc585e1e9510fc41276473726340f4e0997353b46342d3532b"
        ),
    },
)
