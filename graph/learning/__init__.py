"""What closed incidents teach: lessons drafted for people to decide about, and recalled with their source. Pure; may import ports, reports and rows."""
