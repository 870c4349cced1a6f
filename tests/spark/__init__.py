"""Tests on a real Spark: one session for all, local[2], real Python workers."""
