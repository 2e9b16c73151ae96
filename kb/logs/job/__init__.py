"""A job's log into typed errors of its ranks; all of it is the tenant's, so of low trust. May import the room of logs, kb.redact and kb.scan."""
