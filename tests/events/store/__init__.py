"""The store of events: what commands write, how they are grouped, what a crash leaves."""
