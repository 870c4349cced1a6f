"""What commands read: requested rows, records to produce, schema files, settings."""
