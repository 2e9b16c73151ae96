"""Remediation in Slack: approval cards and clicks, decisions, and the worker that runs approved actions."""
