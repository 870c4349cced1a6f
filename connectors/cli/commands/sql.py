"""`shardlog sql`: SQL over streams, by DuckDB."""

from pathlib import Path
from typing import Final

from connectors.cli.input.sql_text import query_text
from connectors.cli.output.printing import print_lines
from connectors.cli.output.progress_line import query_line
from connectors.cli.output.row_output import Output, OutputChoice
from connectors.cli.parsing.options import OutputForm
from connectors.cli.second_interrupt import second_interrupt_ends
from storage_core.sql import query_batches

# The columns of what EXPLAIN returns in DuckDB, a plan of many lines.
_EXPLAIN_COLUMNS: Final = ["explain_key", "explain_value"]


def sql(  # noqa: PLR0913 - one parameter an option
    *,
    root: str,
    query: str | None,
    file: str | None,
    form: OutputForm | None,
    to: Path | None,
    overwrite: bool,
    memory_mib_max: int | None,
    verify_checksums: bool,
    allow_external_access: bool,
) -> None:
    """Run SQL over streams: their parts and the rows that are not sealed yet."""
    choice = OutputChoice.of(form, to, overwrite=overwrite)
    bound = None if memory_mib_max is None else memory_mib_max * 2**20
    text = query_text(query, file)
    with second_interrupt_ends(), query_line() as line:
        schema, batches = query_batches(
            root,
            text,
            line.tell,
            memory_bytes_max=bound,
            verify_checksums=verify_checksums,
            allow_external_access=allow_external_access,
        )
        line.hide()
        if schema.names == _EXPLAIN_COLUMNS and choice.form == "table" and to is None:
            for batch in batches:
                print_lines([str(text) for text in batch.column(1).to_pylist()])
            return
        with Output(choice, schema) as output:
            for batch in batches:
                line.hide()
                output.batch(batch)
