"""Spark's own Kafka connector and Avro functions, for comparisons only: the product needs neither.

The connector of Spark 4.2.0 runs on 4.3.0; its token provider has to be the one of 4.0.0.
"""

from connectors.devtools.fetch import Bundle, fetched

_PARTS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
CONNECTOR = Bundle(
    name="spark-kafka-4.2.0",
    dependencies="\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" transitive="false"'
        ' conf="default->default"/>'
        for org, name, rev in _PARTS
    ),
    files=len(_PARTS),
    megabytes=11,
    sha256="cf523816b6184268edf3ef2ead3889f57f40177a6d1ad23435725fb7b5820074",
)


AVRO_FUNCTIONS = Bundle(
    name="spark-avro-4.1.1",
    dependencies='    <dependency org="org.apache.spark" name="spark-avro_2.13" rev="4.1.1"'
    ' transitive="false" conf="default->default"/>',
    files=1,
    megabytes=1,
    sha256="5bf68553fcd7a84639406ae038fa7990d81209fb485b049172ae857fd18055cf",
)


def avro_jars() -> list[str]:
    """Return the paths of the jars of `from_avro`, fetched once."""
    return [str(path) for path in sorted(fetched(AVRO_FUNCTIONS).glob("*.jar"))]


def connector_jars() -> list[str]:
    """Return the paths of the connector's jars, fetched once."""
    return [str(path) for path in sorted(fetched(CONNECTOR).glob("*.jar"))]
