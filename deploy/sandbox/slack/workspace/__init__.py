"""Slack's state: people, channels, messages, files, views, and a journal of changes. Imports no other package of the
sandbox.
"""
