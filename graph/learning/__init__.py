"""Lessons from closed incidents: draft, review, recall with their source."""
