"""QUERY, REPLAY and EXPLAIN: typed commands over a root to rows."""
