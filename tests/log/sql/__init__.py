"""Scenarios of SQL over parts and the rows that are not sealed."""
