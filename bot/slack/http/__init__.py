"""Slack over HTTP: verify the signature, then hand the request to the handlers that Socket Mode uses, too."""
