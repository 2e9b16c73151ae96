"""What `rackmedic doctor` tries beyond the settings: whether hosts let us in, their kits, their scheduler. May import the floors below, and no command."""
