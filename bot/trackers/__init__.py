"""Tickets in trackers that a site already has: one adapter a product, the draft that leaves, the sync, and their Slack side."""
