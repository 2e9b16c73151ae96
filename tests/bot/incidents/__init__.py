"""Incidents through the dispatcher: incoming messages, turns, leases, timers, shared causes and held nodes."""
