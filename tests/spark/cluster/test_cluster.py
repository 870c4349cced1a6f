"""Spark on machines that have neither the root nor RocksDB: all goes by a server."""

import pytest

from tests.spark.cluster.driver import DriverError
from tests.spark.cluster.lab import (
    EARLY,
    INTO,
    WRITE_TOKEN,
    await_landed,
    finish_queries,
    machines,
    numbers,
    rows,
    start_query,
    write_numbers,
)
from tests.spark.cluster.machines import WAYS, Machine, hide, works
from tests.spark.cluster.package import LACKED
from tests.spark.support.avro_rows import VERSIONS, append_heat

ROWS = 200


@pytest.fixture
def full(lab):
    lab.log.create(shards=2)
    lab.log.append(ROWS)
    lab.serve()
    return lab


@pytest.mark.parametrize("way", WAYS)
def test_a_machine_is_kept_from_a_disk(way, tmp_path):
    if not works(way):
        pytest.skip(f"no {way} here; the cluster's fixture fails where there is no way at all")
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "secret").write_text("a row")
    hide(disk, way)
    said = tmp_path / "said"
    process = Machine("elsewhere", disk, way).start(["ls", str(disk)], said, {"LC_ALL": "C"})
    process.wait()
    assert said.read_text() in {"", f"ls: cannot open directory '{disk}': Permission denied\n"}
    assert (disk / "secret").read_text() == "a row"


def test_machines_see_no_root_and_have_nothing_but_what_was_shipped(full, driver, cluster, shipped):
    seen = driver.do(machines, str(cluster.disk), LACKED)
    assert len({machine["work"] for machine in seen}) == 2
    for machine in seen:
        assert machine["disk"] == []
        assert machine["lacks"] == list(LACKED)
        assert shipped.archive.name in machine["shipped as"]
        assert machine["token file"] == str(shipped.token_file)
    # The check can fail: here the disk is seen.
    assert full.log.root.is_dir()


def test_batch_reads_what_is_in_the_log(full, driver):
    columns = ["partition", "offset", "primary", "value"]
    expected = sorted(
        [row["shard"], row["address"], row["primary"], bytearray(row["payload"])]
        for row in full.log.writer.read().to_pylist()
    )
    full.log.writer.seal()
    assert driver.do(rows, full.options(minPartitions=4), columns) == expected
    assert len(expected) == ROWS


def test_batch_reads_typed_columns(lab, driver):
    lab.log.create(shards=2)
    measured = [(1_700_000_000_000 + n, n % 5, n / 2) for n in range(ROWS)]
    append_heat(lab.log.writer, measured[: ROWS // 2], 0)
    append_heat(lab.log.writer, measured[ROWS // 2 :], 1)
    lab.serve()
    options = lab.options(valueFormat="avro", readerSchema=VERSIONS[1].text)
    assert driver.do(rows, options, ["primary", "secondary", "heat", "wet"]) == [
        [*row, None if n < ROWS // 2 else 5] for n, row in enumerate(measured)
    ]


def test_query_moves_each_row_once_over_a_restart(full, driver, cluster):
    checkpoint = str(cluster.place / f"{full.place.name}-checkpoint")
    query = (full.options(maxOffsetsPerTrigger=60, **EARLY), full.options(stream=INTO), checkpoint)
    driver.do(start_query, *query)
    await_landed(driver, full, 1)
    full.log.append(50, first=ROWS)
    driver.do(finish_queries)
    full.log.append(50, first=ROWS + 50)
    driver.do(start_query, *query)
    driver.do(finish_queries)
    assert full.landed() == list(range(ROWS + 100))


def test_batch_is_written_once(full, driver):
    into = full.options(stream=INTO, txnAppId="a", txnVersion=1)
    driver.do(write_numbers, into)
    driver.do(write_numbers, into)
    assert full.landed() == list(range(1000, 1010))


def test_token_is_in_no_plan_and_one_that_is_missing_is_told(full, driver, shipped):
    assert WRITE_TOKEN not in driver.do(plan_of, full.options())
    shipped.token_file.write_text("one-that-nobody-knows-of\n")
    try:
        with pytest.raises(DriverError, match="token") as raised:
            driver.do(numbers, full.options())
        assert "Traceback" not in str(raised.value)
    finally:
        shipped.token_file.write_text(f"{WRITE_TOKEN}\n")


def plan_of(spark, options):
    frame = spark.read.format("shardlog").options(**options).load()
    return frame._jdf.queryExecution().toString()
