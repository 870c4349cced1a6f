"""Tests on a real Spark: one session for all, local[2,4], real Python workers."""
