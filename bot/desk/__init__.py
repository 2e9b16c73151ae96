"""Each thing that happened is one turn, once: inbox, lease, wake-ups, desk, sweeper. May import the store, the graph and asyncio tasks."""
