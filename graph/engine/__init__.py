"""Facts to beliefs to verdicts to the next check. Pure; imports `graph.state` alone."""
