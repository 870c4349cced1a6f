"""The source on the driver: subscription, bounds, offsets, admission control, plans of batches."""
