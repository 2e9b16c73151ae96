"""Roles, channel bindings, approver sets, quorum and quotas: tables and pure functions."""
