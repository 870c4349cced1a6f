"""What can go wrong with a registry; each message names its address and what was asked."""

from storage_core import InvalidRequestError, UnavailableError


class RegistryUnavailableError(UnavailableError):
    """The registry did not answer in time, or not well; the same question may be answered later."""


class RegistryRefusedError(InvalidRequestError):
    """The registry, or what stands before it, will not do it: credentials, rights, address."""


class NoSuchPathError(RegistryRefusedError):
    """Whoever answers at the address has nothing there that a registry has."""


class IncompatibleSchemaError(RegistryRefusedError):
    """The schema breaks the compatibility that its subject asks for."""


class SchemaNotFoundError(InvalidRequestError):
    """The registry answers, and has no such Avro schema, version or subject."""
