"""The client of a schema registry: schemas by id, GUID, subject and version; check, register.

A schema never changes under its id, GUID or version, so those are fetched once and cached, the
latest used of a bounded number. That an id is missing is cached for a second: a producer may
register it any moment, and a topic full of records with a bad id must not cause as many requests.
What changes, such as the latest version, is fetched each time.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final
from urllib.parse import quote

from connectors.registry.errors import NoSuchPathError, RegistryRefusedError, SchemaNotFoundError
from connectors.registry.exchange import Exchange
from connectors.registry.registered import (
    Compatibility,
    Reference,
    RegisteredSchema,
    SchemaKind,
)
from connectors.registry.settings import RegistrySettings
from storage_core import Clock, SystemClock

_NONE: Final = "NONE"
# In the path under which Apicurio speaks Confluent's protocol.
_APICURIO: Final = "/ccompat/"
_CACHED_MAX: Final = 10_000
_MISSING_S: Final = 1.0
_NO_GUIDS_FOR_S: Final = 60.0
_REFERENCES_MAX: Final = 1000
_NESTING_MAX: Final = 50
_AVRO: Final[SchemaKind] = "AVRO"
_CALLED: Final[Mapping[SchemaKind, str]] = {"AVRO": "Avro", "JSON": "JSON Schema"}


class RegistryClient:
    """A client of one registry, for schemas of one kind.

    Any thread may call; two threads may fetch the same schema.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        clock: Clock | None = None,
        question_s_max: float | None = None,
        kind: SchemaKind = _AVRO,
    ) -> None:
        """Create a client; no request is sent yet.

        Args:
            settings: How the registry is reached.
            clock: Tells the time.
            question_s_max: Time limit of a request, where it is below that of the settings.
            kind: What schemas are written in; others are as if they were not there.

        Raises:
            InvalidRequestError: A certificate or key cannot be used.
        """
        self.kind = kind
        self._clock = SystemClock() if clock is None else clock
        self._exchange = Exchange(settings, self._clock, question_s_max)
        self._cache = _Cache(self._clock)
        self._no_guids_until_s = float("-inf")

    @property
    def place(self) -> str:
        """The registry's address, without credentials."""
        return self._exchange.place

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id.

        Raises:
            SchemaNotFoundError: There is none, or it is of another kind.
            RegistryUnavailableError: No answer; each further call would wait as long again.
            RegistryRefusedError: The registry refused for another reason.
        """
        question = f"schema id {schema_id}"
        path = f"/schemas/ids/{schema_id}"
        return self._cache.get(
            question, lambda: self._schema(question, self._ask(question, path), schema_id)
        )

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema of a GUID, with its id; errors as for an id."""
        question = f"schema guid {guid}"
        path = f"/schemas/guids/{quote(guid, safe='')}"

        def ask() -> RegisteredSchema:
            message = f"schema registry {self.place}: {question}: this registry has no GUIDs"
            if self._clock.monotonic_s() < self._no_guids_until_s:
                raise SchemaNotFoundError(message)
            try:
                return self._schema(question, self._ask(question, path))
            except NoSuchPathError as error:
                # Older registries, and others', have no GUIDs; else the address is a wrong one.
                self.subjects()
                self._no_guids_until_s = self._clock.monotonic_s() + _NO_GUIDS_FOR_S
                raise SchemaNotFoundError(message) from error

        return self._cache.get(question, ask)

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject; errors as for an id."""
        return self._version(subject, "latest", 0)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject; errors as for an id."""
        return self._cached_version(subject, version, 0)

    def subjects(self) -> list[str]:
        """Return the names of all subjects, in order."""
        return sorted(str(one) for one in self._list("subjects", "/subjects"))

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions, in order."""
        question = f"versions of subject {subject}"
        return sorted(int(one) for one in self._list(question, f"{_subject(subject)}/versions"))

    def compatibility(self, subject: str) -> Compatibility:
        """Return the compatibility level of a subject, which need not exist."""
        name = quote(subject, safe="")
        try:
            answer = self._ask(f"compatibility of subject {subject}", f"/config/{name}")
        except SchemaNotFoundError:
            answer = None
        # Apicurio says NONE of a subject without a level of its own, and holds it to that of all.
        is_own = answer is not None and not (_level(answer) == _NONE and _APICURIO in self.place)
        if answer is None or not is_own:
            answer = self._ask("compatibility of all", "/config")
        return Compatibility(_level(answer), is_own=is_own)

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject."""
        question = f"set compatibility of subject {subject}"
        path = f"/config/{quote(subject, safe='')}"
        self._exchange.ask(question, path, {"compatibility": level}, method="PUT")

    def incompatibilities(
        self, subject: str, text: str, references: Sequence[Reference] = ()
    ) -> list[str]:
        """Return why a subject would not take a schema as its next version; empty if it would.

        Raises:
            RegistryRefusedError: The text is no schema, or refers to what is not there.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions?verbose=true"
        try:
            answer = self._ask(
                f"check against subject {subject}", path, _sent(self.kind, text, references)
            )
        except SchemaNotFoundError:
            # A subject that is not there takes everything.
            return []
        if answer.get("is_compatible", False):
            return []
        return [" ".join(str(one).split()) for one in answer.get("messages") or ["incompatible"]]

    def register(self, subject: str, text: str, references: Sequence[Reference] = ()) -> int:
        """Register a schema as the next version of a subject, unless it is one; return its id.

        Raises:
            IncompatibleSchemaError: It is not compatible with the subject.
            RegistryRefusedError: The text is no schema, or refers to what is not there.
        """
        question = f"register with subject {subject}"
        answer = self._ask(
            question, f"{_subject(subject)}/versions", _sent(self.kind, text, references)
        )
        return _number(answer, "id", self.place, question)

    def registered(
        self, subject: str, text: str, references: Sequence[Reference] = ()
    ) -> RegisteredSchema | None:
        """Return the version of a subject that a schema is, None if it is none of them."""
        question = f"look up with subject {subject}"
        try:
            answer = self._ask(question, _subject(subject), _sent(self.kind, text, references))
        except SchemaNotFoundError:
            return None
        return self._schema(question, answer)

    def _cached_version(self, subject: str, version: int, nesting: int) -> RegisteredSchema:
        question = f"subject {subject}, version {version}"
        return self._cache.get(question, lambda: self._version(subject, str(version), nesting))

    def _version(self, subject: str, version: str, nesting: int) -> RegisteredSchema:
        question = f"subject {subject}, version {version}"
        answer = self._ask(question, f"{_subject(subject)}/versions/{version}")
        return self._schema(question, answer, nesting=nesting)

    def _schema(
        self,
        question: str,
        answer: Mapping[str, Any],
        schema_id: int | None = None,
        nesting: int = 0,
    ) -> RegisteredSchema:
        """Return an answer's schema; the subject where it was not asked for by id."""
        kind = answer.get("schemaType") or _AVRO
        if kind != self.kind:
            message = (
                f"schema registry {self.place}: {question}: is {kind}, not {_CALLED[self.kind]}"
            )
            raise SchemaNotFoundError(message)
        text, version = answer.get("schema"), answer.get("version")
        if not isinstance(text, str):
            raise _odd(self.place, question)
        referred = _references(answer.get("references"), self.place, question)
        texts = self._texts(question, referred, nesting)
        if schema_id is not None:
            return RegisteredSchema(schema_id, None, None, text, texts, referred)
        subject = answer.get("subject")
        return RegisteredSchema(
            _number(answer, "id", self.place, question),
            subject if isinstance(subject, str) else None,
            version if isinstance(version, int) else None,
            text,
            texts,
            referred,
        )

    def _texts(self, question: str, referred: Iterable[Reference], nesting: int) -> tuple[str, ...]:
        """Return the texts of what is referred to, also indirectly, each behind what it needs."""
        texts: dict[str, None] = {}
        for reference in referred:
            # A registry whose schemas refer to each other in a circle ends here too.
            if nesting >= _NESTING_MAX or len(texts) > _REFERENCES_MAX:
                most = f"{_NESTING_MAX} schemas in a row, or {_REFERENCES_MAX}"
                message = f"schema registry {self.place}: {question}: refers to more than {most}"
                raise RegistryRefusedError(message)
            schema = self._cached_version(reference.subject, reference.version, nesting + 1)
            texts |= dict.fromkeys((*schema.references, schema.text))
        return tuple(texts)

    def _ask(self, question: str, path: str, body: object = None) -> Mapping[str, Any]:
        answer = self._exchange.ask(question, path, body)
        if not isinstance(answer, dict):
            raise _odd(self.place, question)
        return answer

    def _list(self, question: str, path: str) -> list[Any]:
        answer = self._exchange.ask(question, path)
        if not isinstance(answer, list):
            raise _odd(self.place, question)
        return answer


class _Cache:
    """Schemas by question, least recently used first out; for a moment also that there is none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._schemas: OrderedDict[str, RegisteredSchema] = OrderedDict()
        self._missing: OrderedDict[str, tuple[float, SchemaNotFoundError]] = OrderedDict()

    def get(self, question: str, ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
        """Return the cached schema, or ask for it, without the lock."""
        with self._lock:
            if question in self._schemas:
                self._schemas.move_to_end(question)
                return self._schemas[question]
            until_s, error = self._missing.get(question, (0.0, None))
        if error is not None and self._clock.monotonic_s() < until_s:
            raise SchemaNotFoundError(error.message) from error
        try:
            schema = ask()
        except SchemaNotFoundError as missing:
            with self._lock:
                _keep(self._missing, question, (self._clock.monotonic_s() + _MISSING_S, missing))
            raise
        with self._lock:
            _keep(self._schemas, question, schema)
        return schema


def _keep(cache: OrderedDict[str, Any], question: str, entry: object) -> None:
    cache[question] = entry
    cache.move_to_end(question)
    if len(cache) > _CACHED_MAX:
        cache.popitem(last=False)


def _subject(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _sent(kind: SchemaKind, text: str, references: Sequence[Reference]) -> dict[str, object]:
    sent: dict[str, object] = {"schema": text, "schemaType": kind}
    if references:
        sent["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in references
        ]
    return sent


def _level(answer: Mapping[str, Any]) -> str:
    return str(answer.get("compatibilityLevel") or answer.get("compatibility") or _NONE)


def _references(value: object, place: str, question: str) -> tuple[Reference, ...]:
    try:
        return tuple(
            Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]))
            for reference in (value if isinstance(value, list) else ())
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _odd(place, question) from error


def _number(answer: Mapping[str, Any], name: str, place: str, question: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise _odd(place, question)
    return value


def _odd(place: str, question: str) -> RegistryRefusedError:
    message = f"schema registry {place}: {question}: the answer is not a registry's"
    return RegistryRefusedError(message)
