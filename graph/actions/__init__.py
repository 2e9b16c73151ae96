"""The action graph: ask, act, prove, one thread for each action; what may run and what ran is the ledger's to say. May import the graph's
incident, ladders, engine and memory, and tools."""
