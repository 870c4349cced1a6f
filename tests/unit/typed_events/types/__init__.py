"""Tests of types: versions, payloads."""
