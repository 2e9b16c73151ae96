"""The Slack side: listeners, files, markup, report cards, outgoing messages, the manifest."""
