"""Sealed rows: sorted, compressed columns in files of Parquet, made from blocks."""
