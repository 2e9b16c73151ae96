"""Cards of an incident: progress, diagnosis, question, ticket, hand-off, Home tab and direct messages."""
