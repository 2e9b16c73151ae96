"""Reports and answers posted to Slack."""
