"""The newest row of each id or key: from heads, within a time range, by version."""
