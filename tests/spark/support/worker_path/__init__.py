"""A directory on the path of the Python processes of a test's Spark, for what they do first."""
