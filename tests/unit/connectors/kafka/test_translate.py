"""What librdkafka raises leaves as an error of ours."""

import pytest
from confluent_kafka import KafkaError, KafkaException  # noqa: TID251 - its errors, as it makes them

from connectors.kafka.translate import translated
from storage_core import ShardlogError


def test_fatal_error_that_cpython_wraps_is_an_error_of_ours():
    error = KafkaError(KafkaError._FENCED, "fenced by a newer producer", fatal=True)
    wrapped = SystemError("isinstance returned a result with an exception set")
    with (
        pytest.raises(ShardlogError, match=r"committing a transaction.*newer producer"),
        translated("committing a transaction"),
    ):
        raise wrapped from KafkaException(error)


def test_other_errors_of_cpython_leave_as_they_are():
    error = SystemError("of its own")
    with pytest.raises(SystemError, match="of its own"), translated("committing a transaction"):
        raise error
