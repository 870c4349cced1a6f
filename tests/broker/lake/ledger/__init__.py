"""Machines that own partitions in turn and are lost, one lake, and the ledger that must hold."""
