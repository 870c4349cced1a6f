"""Processes that do work for another one: an order, then its answer, a line each."""
