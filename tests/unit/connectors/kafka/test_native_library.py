"""Where the compiled library cannot be had there is a reason, and never a crash."""

import _ctypes
import gc
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

from connectors.kafka import Consumer, Partition, Place, check_settings
from connectors.kafka.native_fetch import open_client
from connectors.kafka.native_library import LIBRARY, Refusal, load
from storage_core import ClosedError, InvalidRequestError
from tests.unit.forks import in_fork

HERE = load()
# A library that has nothing to do with Kafka.
OTHER = str(_ctypes.__file__)
NOBODY = {"group.id": "nobody"}
A, B = Partition("orders", 0), Partition("orders", 1)
needs_library = pytest.mark.skipif(
    isinstance(HERE, Refusal), reason=HERE.reason if isinstance(HERE, Refusal) else ""
)


def reason(path: Path, **client: str) -> str:
    refusal = load(path, **client)
    assert isinstance(refusal, Refusal)
    return refusal.reason


def test_library_that_is_not_there_is_told(tmp_path):
    assert "is missing; install shardlog again" in reason(tmp_path / "fetch.so")


@pytest.mark.parametrize(("offset", "value"), [(4, 1), (5, 2), (18, 0xB7)])
def test_library_of_another_machine_is_told(tmp_path, offset, value):
    code = bytearray(Path(OTHER).read_bytes())
    code[offset] = value if code[offset] != value else 0
    (tmp_path / "fetch.so").write_bytes(code)
    assert "it is for another machine, install shardlog again" in reason(tmp_path / "fetch.so")


@needs_library
def test_path_that_librdkafka_would_split_is_told(tmp_path):
    path = tmp_path / "a;b" / "fetch.so"
    path.parent.mkdir()
    shutil.copy(LIBRARY, path)
    assert "semicolon" in reason(path)


@needs_library
def test_client_without_librdkafka_is_told(tmp_path):
    copy = Path(shutil.copy(LIBRARY, tmp_path / "fetch.so"))
    assert reason(copy, client=OTHER).startswith("this confluent_kafka exports no rd_kafka_")


@needs_library
def test_library_of_another_version_is_told(tmp_path):
    code = LIBRARY.read_bytes()
    before, after = b"shardlog_abi\0", b"shardlog_abx\0"
    assert before in code
    (tmp_path / "fetch.so").write_bytes(code.replace(before, after))
    assert "cannot be loaded" in reason(tmp_path / "fetch.so")


def test_library_that_is_wanted_and_cannot_be_had_is_refused_in_one_line(tmp_path):
    def without():
        return load(tmp_path / "fetch.so")

    with pytest.raises(InvalidRequestError) as refused:
        open_client({"group.id": "nobody"}, "native", without)
    assert str(refused.value) == (
        'fetch = "native" is not possible: the compiled library is missing; install shardlog '
        'again where there is a C compiler; "auto" goes on without it'
    )
    for way in ("auto", "python"):
        client, native, fetches_by = open_client({"group.id": "nobody"}, way, without)
        client.close()
        assert native is None
        since = ", since the compiled library is missing; install shardlog again where there is"
        assert fetches_by.startswith("python" + (since if way == "auto" else ""))
        assert ("since" in fetches_by) == (way == "auto")


@needs_library
def test_settings_that_are_wrong_are_refused_in_the_same_words_by_both_ways():
    for settings in ({"fetch.mim.bytes": 3}, {"plugin.library.paths": "/nowhere/plugin.so"}):
        messages = []
        for way in ("python", "native"):
            with pytest.raises(InvalidRequestError) as refused:
                check_settings({**NOBODY, **settings}, way)
            messages.append(str(refused.value))
        assert messages[0] == messages[1]


@needs_library
def test_plugins_of_the_user_are_kept(tmp_path):
    # Another copy of ours: it finds no librdkafka to speak to.
    other = shutil.copy(LIBRARY, tmp_path / "other.so")
    consumer = Consumer({**NOBODY, "plugin.library.paths": str(other)}, "native")
    assert consumer.fetches_by == "native"
    assert str(other) in Path("/proc/self/maps").read_text()
    consumer.close()


@needs_library
def test_consumers_of_one_process_do_not_share():
    assert not isinstance(HERE, Refusal)
    before = HERE.counted()
    first, second = Consumer(NOBODY, "native"), Consumer(NOBODY, "native")
    assert first.fetch(10, 0) == []
    first.close()
    assert second.fetch(10, 0) == []
    second.close()
    after = HERE.counted()
    assert after.queues_made - before.queues_made == 2
    assert after.queues_gone - before.queues_gone == 2


@needs_library
def test_consumer_that_is_never_closed_leaves_nothing():
    assert not isinstance(HERE, Refusal)
    consumer = Consumer(NOBODY, "native")
    assert consumer.fetch(1, 0) == []
    del consumer
    # Its callbacks hold it in turn.
    gc.collect()
    counted = HERE.counted()
    assert counted.queues_made == counted.queues_gone


@pytest.mark.parametrize("way", ["python", pytest.param("native", marks=needs_library)])
def test_consumer_that_is_closed_refuses_whatever_is_called(way):
    consumer = Consumer(NOBODY, way)
    assert consumer.close()
    for call in (
        lambda: consumer.fetch(1, 0),
        lambda: consumer.begin({A: Place(0)}),
        lambda: consumer.unassign([A]),
        lambda: consumer.positions([A]),
        lambda: consumer.seek(A, Place(0)),
        lambda: consumer.pause([A]),
    ):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert consumer.close()


@needs_library
def test_fork_is_refused_whatever_it_calls_and_harms_nobody():
    consumer = Consumer(NOBODY, "native")
    consumer.begin({A: Place(0)})
    native = consumer._native
    assert native is not None
    is_over = Event()

    def wait_for_records():
        while not is_over.is_set():
            native.take(1, 0.1)

    # The lock that a fork has a copy of is held nearly always.
    waiting = Thread(target=wait_for_records)
    waiting.start()
    calls: dict[str, Callable[[], object]] = {
        "fetch": lambda: consumer.fetch(1, 0),
        "take": lambda: native.take(1, 0),
        "begin": lambda: consumer.begin({B: Place(0)}),
        "unassign": lambda: consumer.unassign([A]),
        "close": consumer.close,
    }
    errors = {name: in_fork(call) for name, call in calls.items()}
    is_over.set()
    waiting.join()
    refusal = "this consumer was made by another process; make one here"
    assert {name: (type(each), str(each)) for name, each in errors.items()} == dict.fromkeys(
        calls, (ClosedError, refusal)
    )
    assert consumer.fetch(1, 0) == []
    consumer.close()
