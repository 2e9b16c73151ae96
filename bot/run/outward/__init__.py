"""What leaves this site for others, put together: the line to a provider, and tickets in trackers. May import what the rest of `bot.run` may."""
