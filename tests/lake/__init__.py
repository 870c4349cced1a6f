"""Tests of the lake: a stream as a Delta table, in a directory and in a bucket."""
