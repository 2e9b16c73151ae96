"""Cards of incidents that alerts opened. Pure."""
