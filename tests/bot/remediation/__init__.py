"""Approvals given, counted, queued and carried out: by one, by several, by waves."""
