"""A stream's Parquet files as a DataFrame that Spark reads itself.

`frame` makes the DataFrame of its parts, `table_frame` that of its table in the lake, `casts` the
expressions that bring columns of several schemas together.
"""

from streaming_jobs.parts.frame import dataframe
from streaming_jobs.parts.table_frame import table_frame

__all__ = ["dataframe", "table_frame"]
