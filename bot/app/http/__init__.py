"""The HTTP server of both ports (health and metrics, webhooks), its guards, and the routes for Slack and alerts."""
