"""Commands over typed events: what front ends with sockets share, and each of them."""
