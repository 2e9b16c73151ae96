"""Tickets in external trackers."""
