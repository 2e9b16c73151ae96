"""Alerts of a monitoring system, received over HTTP: parse, group by cause, and open or join one incident for each cause."""
