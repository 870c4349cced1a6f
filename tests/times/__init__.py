"""How long tests take: what a run writes of it, and the table of the dearest."""
