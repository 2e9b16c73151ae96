"""Tickets in trackers."""
