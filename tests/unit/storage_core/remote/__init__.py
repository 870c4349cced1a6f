"""The client of a server, without one."""
