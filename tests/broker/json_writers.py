"""Values of JSON as producers with a registry write them: by Confluent's own serializer."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

Write = Callable[[Mapping[str, Any]], bytes]
WriterOf = Callable[[Mapping[str, Any]], Write]


@contextmanager
def json_writers(registry: str, topic: str) -> Iterator[WriterOf]:
    """Yield what gives a schema's serializer of a topic's values; each registers its schema."""
    with SchemaRegistryClient({"url": registry}) as client:
        context = SerializationContext(topic, MessageField.VALUE)

        def writer_of(schema: Mapping[str, Any]) -> Write:
            serializer = JSONSerializer(json.dumps(schema), client)
            return lambda fields: serializer(fields, context) or b""

        yield writer_of
