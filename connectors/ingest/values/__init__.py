"""Avro values of a topic: framing, writer schemas from the registry, checks, decoding."""
