"""The source in tasks: reads offset ranges, decodes values, makes the rows that Spark takes."""
