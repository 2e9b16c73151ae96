"""Cards of lessons, site notes, ideas and guides. Pure."""
