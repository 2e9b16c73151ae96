"""What other systems gave away of past incidents, read as it streams by: bounded, without secrets, and no row that is bad ends it. May import kb.redact."""
