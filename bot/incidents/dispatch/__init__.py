"""Inbox, leases, wake-ups, dispatcher and sweeper: each inbox item becomes one turn, once."""
