"""Messages, edits, files and direct messages."""
