"""Cards of an incident."""
