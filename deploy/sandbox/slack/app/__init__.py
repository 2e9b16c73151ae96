"""Turns people's actions into events and delivers them to the app. May import the workspace."""
