"""Scenarios of the front ends: the same commands by HTTP, by line and on the command line."""
