"""Building processes and keeping them: world, bot, its acting half, serve, workers, health, logs, retention. May import every room of the bot but the terminal."""
