"""Scans by time: which windows, id ranges and zones a request needs."""
