"""The Slack adapter: client, rate limits, people, manifest, payloads and posts. Imports no feature."""
