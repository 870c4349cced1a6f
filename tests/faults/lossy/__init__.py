"""A FUSE file system that loses power, runs full and fails fsync on command, and its test."""
