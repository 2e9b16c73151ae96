"""What Slack sends and what is sent to it: listeners, files, grammar, boards, the manifest."""
