"""Facts to beliefs to verdicts to the next look. Pure; may import `graph.state` alone."""
