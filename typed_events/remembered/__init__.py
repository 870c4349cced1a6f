"""REMEMBER, SHOW, FORGET: answers of queries are kept, so that only new rows are evaluated."""
