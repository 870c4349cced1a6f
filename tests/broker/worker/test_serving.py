"""A worker with a server beside it: what it stores is read by its address."""

import os
import signal

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from storage_core import StreamReader
from tests.broker.support.lab import Lab
from tests.waiting import await_that

ANY_PORT = "127.0.0.1:0"


def test_rows_of_a_worker_are_read_from_the_server_beside_it(lab: Lab) -> None:
    topic = lab.topic(partitions=2)
    lab.produce(topic, 500)
    worker = lab.worker(topic, serve__listen=ANY_PORT)
    worker.await_event("serving")
    address = f"shardlog://{worker.events('serving')[0]['address']}"
    lab.await_no_lag(topic)
    with StreamReader.open(address, topic.name) as reader:
        assert reader.read().num_rows == 500
        os.kill(worker.events("serving")[0]["pid"], signal.SIGKILL)
        lab.produce(topic, 100)
        lab.await_no_lag(topic)
        await_that(lambda: len(worker.events("serving")) == 2, "a server that is started again")
        reader.refresh()
        assert reader.read().num_rows == 600
    assert worker.stop() == 0


def test_address_of_the_server_that_is_taken_ends_the_worker_with_one_line(lab: Lab) -> None:
    topic = lab.topic(partitions=1)
    first = lab.worker(topic, serve__listen=ANY_PORT)
    first.await_event("serving")
    address = first.events("serving")[0]["address"]
    second = lab.worker(topic, serve__listen=address)
    assert second.exit_code() == EXIT_UNAVAILABLE
    assert second.said().count("\n") == 1
    assert f"serve.listen: {address} cannot be had" in second.said()
