"""Slack's Web API: methods, scopes and rate limits. May import the workspace and the app's hub."""
