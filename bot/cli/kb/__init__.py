"""`rackmedic kb`: build the knowledge base from exports, review and apply drafts, and edit lessons without Slack."""
