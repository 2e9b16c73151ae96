"""The state of the simulated Slack workspace: people, channels, messages, files, views and the journal of changes.

Imports no other package of the simulated Slack.
"""
