"""SUBSCRIBE: events as they are stored, behind those that were stored before."""
