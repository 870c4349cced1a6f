"""What a worker reports: progress and log lines, counts, its state for metrics and health."""
