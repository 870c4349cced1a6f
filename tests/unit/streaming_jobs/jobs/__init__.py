"""Unit tests of streaming_jobs: no JVM. Readers are called as Spark would call them."""
