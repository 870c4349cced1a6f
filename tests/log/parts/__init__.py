"""Scenarios of parts: seal, compact, trim, rebuild, and what reads show behind them."""
