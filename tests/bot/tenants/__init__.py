"""Tenants' channels: cards, replies, refusals, quotas and leaks."""
