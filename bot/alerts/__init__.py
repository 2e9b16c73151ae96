"""Alerts of a monitoring system, heard over HTTP: what they say, which of them have one cause, and how each cause becomes one incident.
It only fills the inbox; may import the inbound values, desk, policy and store, and the graph's and tools' values.
"""
