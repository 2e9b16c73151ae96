"""Lessons from closed incidents: the card that knowledge editors decide on, its clicks and forms, and the store."""
