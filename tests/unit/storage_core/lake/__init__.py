"""Tests of the inner modules of the lake."""
