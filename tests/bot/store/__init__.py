"""What stays in Redis: its keys, its limits, how long it lives."""
