"""The only code that calls librdkafka: consumer, producer, administration.

Nothing else imports confluent_kafka. Every call has a time limit. Settings have librdkafka's
names.

    terms            partitions, places
    settings         our defaults, what is fixed, which are one kind of client's own
    translate        its exceptions and error events as errors of ours, by one table
    consumer         a consumer whose owner gives each partition its position; one thread
    producer         sends and counts; one thread
    transaction      sends, and commits a group's offsets, as one; one thread
    admin            topics, their ids, watermarks; any thread
    offset_admin     offsets by what they mean, and a group's as a tool sets them; any thread
    fetched          the records of one call, in columns
    native_library   the compiled library, or why it is missing
    native_fetch     those columns, filled by it
    python_fetch     the same without it, from messages, one pass a field
    message_fields   access to the fields of a message
    reach            whether a broker answers; if none does, why
"""

from typing import TYPE_CHECKING

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from connectors.kafka.admin import Admin, GroupMember
    from connectors.kafka.consumer import Consumer, check_settings
    from connectors.kafka.fetched import Fetched, FetchResults
    from connectors.kafka.offset_admin import OffsetAdmin
    from connectors.kafka.producer import Producer
    from connectors.kafka.settings import (
        BROKER_NAMES,
        LOGGER_NAME,
        FetchWay,
        likely_setting,
        line_without_secrets,
        printable_consumer_settings,
        setting_called,
    )
    from connectors.kafka.terms import Headers, Partition, Place
    from connectors.kafka.transaction import TransactionalProducer
    from connectors.kafka.translate import PartitionFault
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "admin": ("Admin", "GroupMember"),
            "consumer": ("Consumer", "check_settings"),
            "fetched": ("Fetched", "FetchResults"),
            "offset_admin": ("OffsetAdmin",),
            "producer": ("Producer",),
            "settings": (
                "BROKER_NAMES",
                "LOGGER_NAME",
                "FetchWay",
                "likely_setting",
                "line_without_secrets",
                "setting_called",
                "printable_consumer_settings",
            ),
            "terms": ("Headers", "Partition", "Place"),
            "transaction": ("TransactionalProducer",),
            "translate": ("PartitionFault",),
        },
        extra="kafka",
    )

__all__ = [
    "BROKER_NAMES",
    "LOGGER_NAME",
    "Admin",
    "Consumer",
    "FetchResults",
    "FetchWay",
    "Fetched",
    "GroupMember",
    "Headers",
    "OffsetAdmin",
    "Partition",
    "PartitionFault",
    "Place",
    "Producer",
    "TransactionalProducer",
    "check_settings",
    "likely_setting",
    "line_without_secrets",
    "printable_consumer_settings",
    "setting_called",
]
