"""An S3 server, what may stand before it, and tables on both kinds of store."""
