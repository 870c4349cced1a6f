"""Settings as they may be shown: what is secret is only said to be there.

Every place that prints settings prints these.
"""

from typing import Any, Final

from connectors.kafka_client import shown_consumer_settings
from connectors.settings.options import WorkerOptions

_MASK: Final = "***"
# Parts of librdkafka's names whose values open something.
_SECRET_PARTS: Final = ("password", "passphrase", "secret", "key.pem", "jaas", "oauthbearer.config")
_SECRET_ENDS: Final = ("token",)


def shown_settings(options: WorkerOptions) -> dict[str, Any]:
    """Return what is in force, defaults too, as JSON has it, without secrets.

    Of librdkafka's settings those that shardlog sets are there, and those that were given.
    """
    kafka = shown_consumer_settings(options.kafka_settings)
    return {
        **options.model_dump(mode="json"),
        "kafka": {name: _shown(name, kafka[name]) for name in sorted(kafka)},
    }


def _shown(name: str, value: object) -> object:
    is_secret = any(part in name for part in _SECRET_PARTS) or name.endswith(_SECRET_ENDS)
    return _MASK if is_secret else value
