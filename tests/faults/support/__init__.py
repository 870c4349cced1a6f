"""What the fault tests share: ledger, workload, child processes, damage, campaigns."""
