"""Read a stream from Spark: as a batch of one device, and as a streaming query that counts.

Run it: python examples/spark_source.py
"""

import os
import sys
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from storage_core import Stream

# Spark's Python processes must have shardlog too.
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR")
builder = builder.config("spark.sql.shuffle.partitions", "2")
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()

with TemporaryDirectory() as root:
    with Stream.create(root, "readings") as stream:
        for number in range(100):
            stream.append(1000 * number, number % 3, b"%d" % number)
        stream.commit()

    # Columns and options are those of Kafka's source: key, value, topic, partition, offset, …
    batch = spark.read.format("shardlog").option("path", root).option("subscribe", "readings")
    [first] = batch.option("ids", "2").load().orderBy("offset").head(1)
    value = first.value.decode()
    print(f"first of device 2: partition {first.partition}, offset {first.offset}, value {value}")

    log = spark.readStream.format("shardlog").option("path", root).option("subscribe", "readings")
    rows = log.option("startingOffsets", "earliest").load()
    counts = rows.groupBy("secondary").count()
    writer = counts.writeStream.format("memory").queryName("counts").outputMode("complete")
    writer.trigger(availableNow=True).start().awaitTermination()
    for device, count in spark.table("counts").orderBy("secondary").collect():
        print(f"device {device}: {count} readings")
