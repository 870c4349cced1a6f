"""Heads runs: what lies beside a table so that a log can begin from it."""
