"""The registry client, against an HTTP server that answers as a test says."""
