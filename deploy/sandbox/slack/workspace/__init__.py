"""What Slack remembers: people, channels, messages, files, views, and the order in which all of it changed. Imports no other room."""
