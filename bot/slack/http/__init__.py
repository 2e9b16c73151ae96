"""Slack in HTTP mode: its signed requests, each let through to the same listeners that Socket Mode has. May import what `incoming` offers;
of `bot`, only run imports it.
"""
