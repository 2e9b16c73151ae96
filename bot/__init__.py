"""People: Slack, the terminal, settings, and the one place where everything is built."""
