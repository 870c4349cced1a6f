"""Tests of shardlog; docs/TESTING.md tells what each folder is for and how to replay a failure."""
