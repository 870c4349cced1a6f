"""Fault tests: kill, power loss, damage, full disk, locks, and readers over all of these.

Each kind is one file. What they share: `ledger` (what was promised, and whether it holds),
`writer` and `follower` (the child processes), `lossy_mount` (a file system that loses power),
`damage` (ways to spoil a file). Counts come from SHARDLOG_FAULT_KILLS, SHARDLOG_FAULT_POWER and
SHARDLOG_FAULT_DAMAGE, the seed from SHARDLOG_FAULT_SEED; a failure prints the seed of its cycle.
"""
