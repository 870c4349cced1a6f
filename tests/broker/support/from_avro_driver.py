"""One topic of Avro values, by Spark's Kafka source and from_avro, and by our typed columns.

Asked by test_typed_chain.py of spark_driver.py: bootstrap, topic, root, the reader's schema as
`reader` and as our source takes it (`named`), the registry, the writers' schemas by their ids.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro


def rows_of_both(spark: SparkSession, **parameters: Any) -> dict[str, Any]:
    """Answer with the rows of both, as JSON in the order of their offsets, and their types."""
    ours = (
        spark.read.format("shardlog")
        .option("path", parameters["root"])
        .option("stream", parameters["topic"])
        .option("valueFormat", "avro")
        .option("readerSchema", parameters["named"])
        .option("schemaRegistryUrl", parameters["registry"])
        .load()
    )
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", parameters["bootstrap"])
        .option("subscribe", parameters["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    theirs: DataFrame | None = None
    for number, text in parameters["writers"].items():
        of_writer = records.where(f.expr(f"conv(hex(substring(value, 2, 4)), 16, 10) = {number}"))
        value = from_avro(f.expr("substring(value, 6)"), text, {"avroSchema": parameters["reader"]})
        read = of_writer.select(value.alias("value"), "offset").select("value.*", "offset")
        theirs = read if theirs is None else theirs.unionAll(read)
    assert theirs is not None, "there are writers"
    ours = ours.select(theirs.columns)
    return {who: _rows_and_schema(frame) for who, frame in (("ours", ours), ("theirs", theirs))}


def _rows_and_schema(frame: DataFrame) -> dict[str, Any]:
    row = f.to_json(f.struct("*"), {"ignoreNullFields": "false"})
    rows = [one[0] for one in frame.orderBy("offset").select(row).collect()]
    return {"rows": rows, "types": [field.dataType.simpleString() for field in frame.schema]}
