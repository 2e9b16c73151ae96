"""Handlers for Slack messages, clicks, forms, commands and the Home tab of incidents."""
