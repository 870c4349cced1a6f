"""The one door to a schema registry: what is registered, and registering; over HTTP, bounded.

It speaks the protocol of Confluent's registry, which Apicurio, Karapace and Redpanda speak too.
Names of settings are those of Confluent's clients. Any thread may call.

    errors       what can go wrong, by what to do about it
    settings     where it is, who we are, whom we trust, how long we wait
    exchange     one question over HTTP, asked again where that may help; its answers' errors
    schema_files schemas as files, and which refers to which
    client       the questions, and what is kept of their answers
"""

from typing import TYPE_CHECKING

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from connectors.registry.client import RegistryClient
    from connectors.registry.errors import (
        IncompatibleSchemaError,
        RegistryRefusedError,
        RegistryUnavailableError,
        SchemaNotFoundError,
    )
    from connectors.registry.registered import (
        Compatibility,
        Reference,
        RegisteredSchema,
        SchemaKind,
    )
    from connectors.registry.schema_files import SchemaFile, read_schema_files, schema_in_file
    from connectors.registry.settings import (
        RegistrySettings,
        printable_registry_settings,
        settings_in_file,
    )
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "client": ("RegistryClient",),
            "errors": (
                "IncompatibleSchemaError",
                "RegistryRefusedError",
                "RegistryUnavailableError",
                "SchemaNotFoundError",
            ),
            "registered": ("Compatibility", "Reference", "RegisteredSchema", "SchemaKind"),
            "schema_files": ("SchemaFile", "read_schema_files", "schema_in_file"),
            "settings": ("RegistrySettings", "settings_in_file", "printable_registry_settings"),
        },
        extra="kafka",
    )

__all__ = [
    "Compatibility",
    "IncompatibleSchemaError",
    "Reference",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryRefusedError",
    "RegistrySettings",
    "RegistryUnavailableError",
    "SchemaFile",
    "SchemaKind",
    "SchemaNotFoundError",
    "printable_registry_settings",
    "read_schema_files",
    "schema_in_file",
    "settings_in_file",
]
