"""QUERY, REPLAY, sequences and EXPLAIN against plain lists."""
