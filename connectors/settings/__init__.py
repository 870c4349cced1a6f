"""What a worker is told: file, environment and command line, checked before it begins."""
