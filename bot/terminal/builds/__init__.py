"""`rackmedic kb build` and what follows: exports become a folder, people go through it, what they took is used; and lessons without Slack."""
