"""Slack's Web API: the methods that the app may call, their scopes and their rate limits. May import the workspace, and the app's hub."""
