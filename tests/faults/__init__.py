"""Fault tests: kill, power loss, damage, full disk, locks, and readers over all of these.

Each kind is one file. `support` has what they share: the ledger (what was promised, and whether it
holds), the child processes that write and read, ways to damage a file. `lossy` is a file system
that loses power. Counts come from SHARDLOG_FAULT_KILLS, SHARDLOG_FAULT_POWER and
SHARDLOG_FAULT_DAMAGE, the seed from SHARDLOG_FAULT_SEED; a failure prints the seed of its cycle.
"""
