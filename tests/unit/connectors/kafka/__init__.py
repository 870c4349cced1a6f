"""What of librdkafka can be asked without a broker."""
