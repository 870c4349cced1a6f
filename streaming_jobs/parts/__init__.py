"""A stream's Parquet parts as a DataFrame that Spark reads itself.

`frame` makes the DataFrame, `casts` the expressions that bring columns of several schemas together.
"""

from streaming_jobs.parts.frame import dataframe

__all__ = ["dataframe"]
