"""Jobs that people run over a stream: each a function, and a command of its module."""
