"""`shardlog lake`: whole commands, over a directory and over an S3 server."""
