"""Topics, workers, producers and Spark programs that the tests against a real broker use."""
