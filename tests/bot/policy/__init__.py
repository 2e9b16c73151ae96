"""Roles, approver sets, channels and the policy file."""
