"""Ground: clock, durable files, locks, threads, memory. Knows nothing of a log."""
