"""Scenarios of typed events, over real streams and without a broker."""
