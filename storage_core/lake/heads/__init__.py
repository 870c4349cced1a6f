"""Heads runs: what a log must know of rows that are published to go on behind them."""
