"""The dev stack: what it fetches, starts, records and ends; no JVM here."""
