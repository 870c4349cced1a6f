"""What source, sink and jobs share: options, schemas, types of fields, open streams, errors."""
