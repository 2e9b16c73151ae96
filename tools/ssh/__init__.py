"""The only opener of connections: an argv in, what it left behind out. May import the inventory and what all tools share."""
