"""Many checks on many hosts at once; trouble becomes a fact, never an exception. May import the checks, the inventory and what all tools share."""
