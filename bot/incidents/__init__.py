"""Incidents: messages in (`handlers`), turns one after another (`dispatch`), cards (`cards`) and what is posted (`publishing`)."""
