"""Incidents through the desk: arrivals, turns, leases, timers, causes they share and nodes they hold."""
