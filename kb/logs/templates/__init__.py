"""A log of any size into few templates with counts, times and places. May import the rooms of kernel and job logs, kb.redact and kb.scan."""
