"""`shardlog group`: what workers do with each partition, and what an operator has them do."""
