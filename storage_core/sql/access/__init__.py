"""How SQL reaches the streams of a root: by their files, or by calls of a server over them."""
