"""Whether the fields a worker is to take rows' primaries and ids from are in the topics' schemas.

It is tried by `--check`, on the latest schema of each topic's subject, before a record is consumed.
"""

from collections.abc import Iterator

from connectors.ingest.values.avro_values import mapping_problem
from connectors.ingest.values.registered_schemas import kind_of_schemas, schema_of_registry
from connectors.ingest.values.schema_waits import SILENT_S_MIN
from connectors.registry import (
    RegistryClient,
    RegistrySettings,
    SchemaNotFoundError,
)
from connectors.settings.options import WorkerOptions
from connectors.settings.stream_settings import MappingRules
from storage_core import InvalidRequestError
from typed_events.types.json_events import json_schema_of, versions_of_values
from typed_events.types.stored_types import TypesOfRoot


def untried_topics(options: WorkerOptions) -> Iterator[str]:
    """Try the schema of each topic that is named; yield what to say of those that have none yet.

    Raises:
        InvalidRequestError: A schema has not the fields, or none that can be mapped; or there is
            no event type of the name, or one of state.
        UnavailableError: The registry does not answer.
    """
    stream = options.stream
    if stream.value_format == "raw":
        return
    if stream.event_type is not None:
        _check_event_type(options, stream.event_type)
        return
    settings = RegistrySettings.parse(options.value_schemas.registry)
    kind = kind_of_schemas(stream.value_format)
    client = RegistryClient(
        settings, question_s_max=max(options.value_schemas.wait_s, SILENT_S_MIN), kind=kind
    )
    rules = _rules(options)
    if options.topic_pattern is not None:
        yield "topic_pattern names no subjects, so that the fields could not be tried on schemas"
    for topic in sorted({*options.topics, *options.partitions}):
        subject = f"{topic}-value"
        try:
            latest = client.latest(subject)
        except SchemaNotFoundError as error:
            yield f"{error.message}; the fields of topic {topic!r} could not be tried"
            continue
        try:
            complaint = mapping_problem(schema_of_registry(latest, kind), rules)
        except InvalidRequestError as error:
            complaint = error.message
        if complaint is not None:
            message = f"subject {subject!r}, version {latest.version}: {complaint}"
            raise InvalidRequestError(message)


def _check_event_type(options: WorkerOptions, name: str) -> None:
    newest = versions_of_values(TypesOfRoot(options.root).current(), name)[-1].event_type
    complaint = mapping_problem(json_schema_of(newest), _rules(options))
    if complaint is not None:
        message = f"event type {name}, version {newest.version}: {complaint}"
        raise InvalidRequestError(message)


def _rules(options: WorkerOptions) -> MappingRules:
    stream = options.stream
    return MappingRules(
        primary=stream.primary,
        key_mode=stream.origin_key_mode,
        null_key=stream.null_key,
        payload_bytes_max=stream.payload_bytes_max,
        value_format=stream.value_format,
        secondary=stream.secondary,
        unit=stream.stream_unit,
    )
