"""Facts to beliefs to verdicts to the next check."""
