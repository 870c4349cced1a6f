"""The data source as Spark finds it: where options become readers and writers.

Spark makes one for each `load` or plan, pickles it and unpickles it elsewhere; `__init__` is
Spark's own. Options are checked in `schema`, which `load` asks for before any job starts.
"""

from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from storage_core import InvalidRequestError
from streaming_jobs.common.field_types import parsed_schema
from streaming_jobs.common.option_values import warn_of_idle_options
from streaming_jobs.common.shipped_files import show_shipped_files_to_streams
from streaming_jobs.common.spark_errors import RefusingReader, plain_errors
from streaming_jobs.common.stream_location import RootLocation
from streaming_jobs.source.driver.offsets import SourceOffset
from streaming_jobs.source.driver.ranges import RangeReader
from streaming_jobs.source.driver.snapshot import take
from streaming_jobs.source.driver.stream_snapshot import check_streams, schemas_of_streams
from streaming_jobs.source.driver.tail import TailReader
from streaming_jobs.source.options import (
    Mode,
    SourceOptions,
    parse_source_options,
)
from streaming_jobs.source.spark_columns import check_schema, spark_schema


class ShardlogSource(DataSource):
    """`format("shardlog")`: streams and batches, read and written."""

    # The frame's own snapshot, taken by `load` and pickled with the source from then on.
    _taken: SourceOffset | None = None
    # Where `load` found the root, kept likewise: PySpark 4.0 plans each action of a frame anew.
    _root: RootLocation | None = None
    # The text of the schema that values are read by, kept likewise.
    _read_by: str | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "shardlog"

    def schema(self) -> StructType:
        """Return the columns that the options ask for, once they are found to be sound."""
        show_shipped_files_to_streams()
        with plain_errors():
            options = parse_source_options(self.options)
            check_streams(options)
            self._root = RootLocation.here(options.path)
            warn_of_idle_options(self.options, "Kafka's source")
            if options.takes_snapshot:
                self._taken = take(options)
            options = self._with_fields(options, None)
            return spark_schema(options.rules.columns, options.rules.fields)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what tails the stream."""
        try:
            return TailReader(self._checked(schema, "stream"))
        except InvalidRequestError as error:
            # NOTE: PySpark 4.3.0 replaces an error raised here with one of its own.
            return RefusingReader(error)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads a range once."""
        with plain_errors():
            options = self._checked(schema, "batch")
            if self._root is not None:
                self._root.require_same()
            return RangeReader(replace(options, snapshot=options.snapshot or self._taken))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return what writes a stream's batches, each once."""
        with plain_errors():
            from streaming_jobs.sink.writer import stream_writer  # noqa: PLC0415 - readers do without

            return stream_writer(self.options, schema, overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes one batch."""
        with plain_errors():
            from streaming_jobs.sink.writer import batch_writer  # noqa: PLC0415 - as above

            return batch_writer(self.options, schema, overwrite)

    def _checked(self, schema: StructType, mode: Mode) -> SourceOptions:
        options = self._with_fields(parse_source_options(self.options, mode), mode)
        check_schema(schema, options.rules.columns, options.rules.fields)
        return options

    def _with_fields(self, options: SourceOptions, mode: Mode | None) -> SourceOptions:
        """Return options with the columns of values that are read by fields."""
        request = options.field_request
        if request is None:
            return options
        from streaming_jobs.source import field_options  # noqa: PLC0415 - as above

        is_stream = mode == "stream"
        if self._read_by is None or (is_stream and request.schema is None):
            read_by = field_options.reader_schema(
                request, lambda: schemas_of_streams(options), is_stream=is_stream
            )
            self._read_by = read_by.text
        rules = field_options.with_fields(options.rules, request, parsed_schema(self._read_by))
        return replace(options, rules=rules)
