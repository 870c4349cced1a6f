"""Clock, durable files, locks, threads, memory, fork guard. Knows nothing of a log."""
