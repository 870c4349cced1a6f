"""Dead letters against a real broker: policies, forwarding to a topic, replay."""
