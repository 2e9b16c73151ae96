"""Cards of tickets in external trackers. Pure."""
