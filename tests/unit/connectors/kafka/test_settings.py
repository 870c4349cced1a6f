"""Which settings reach which client; judged by the table that librdkafka prints of itself."""

import ctypes
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from connectors.kafka.settings import (
    CONSUMER_OWN,
    OF_PATTERNS,
    PRODUCER_OWN,
    admin_settings,
    consumer_settings,
    producer_settings,
)

# Callbacks are set in code; a text cannot be one.
_CALLBACKS = ("_cb", "msg_order_cmp")


@pytest.fixture(scope="module")
def documented(tmp_path_factory) -> dict[str, set[str]]:
    """Return for each setting of the library in use what its column C/P says."""
    client = find_spec("confluent_kafka")
    assert client is not None
    assert client.origin is not None
    (library,) = Path(client.origin).parents[1].glob("confluent_kafka.libs/librdkafka-*")
    table = tmp_path_factory.mktemp("librdkafka") / "settings.md"
    system = ctypes.CDLL(None)
    system.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(system.fopen(str(table).encode(), b"w"))
    ctypes.CDLL(str(library)).rd_kafka_conf_properties_show(file)
    system.fclose(file)
    owners = defaultdict(set)
    for line in table.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[1] in ("C", "P", "*"):
            owners[cells[0]].add(cells[1])
    return owners


def own(documented, letter):
    names = {name for name, letters in documented.items() if letters == {letter}}
    return {name for name in names if not name.endswith(_CALLBACKS)}


def test_table_of_the_library_is_read_whole(documented):
    assert len(documented) > 150
    assert documented["socket.timeout.ms"] == {"*"}


def test_what_a_consumer_has_to_itself_is_what_the_library_says(documented):
    assert own(documented, "C") == CONSUMER_OWN


def test_what_a_producer_has_to_itself_is_what_the_library_says(documented):
    assert own(documented, "P") == PRODUCER_OWN


def test_every_setting_that_is_nobodys_own_reaches_every_client(documented):
    own = CONSUMER_OWN | PRODUCER_OWN | OF_PATTERNS
    common = {name for name in documented if name not in own}
    settings = {name: "x" for name in common if not name.endswith(_CALLBACKS)}
    assert {"ssl.ca.location", "enable.ssl.certificate.verification"} <= set(settings)
    for of_client in (admin_settings, consumer_settings, lambda all_: producer_settings("b", all_)):
        reached = of_client(settings)
        assert {name: reached.get(name) for name in settings} == settings


def test_what_is_a_consumers_own_reaches_no_other_client():
    settings = {"group.id": "g", "fetch.min.bytes": 1}
    assert not set(settings) & set(admin_settings(settings))
    assert not set(settings) & set(producer_settings("b", settings))


def test_clients_are_called_shardlog_unless_told_otherwise():
    named = [consumer_settings({}), producer_settings("b", {}), admin_settings({})]
    assert [settings["client.id"] for settings in named] == [
        "shardlog-consumer",
        "shardlog-producer",
        "shardlog-admin",
    ]
    assert admin_settings({"client.id": "mine"})["client.id"] == "mine"


def test_topics_that_a_pattern_leaves_out_are_there_for_producers_and_administration():
    settings = {"topic.blacklist": "^.*[.]dlq$"}
    assert consumer_settings(settings)["topic.blacklist"] == "^.*[.]dlq$"
    assert "topic.blacklist" not in producer_settings("b", settings)
    assert "topic.blacklist" not in admin_settings(settings)
