"""Rollup."""
