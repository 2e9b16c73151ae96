"""Building and keeping processes: world, bot, its acting half, serve, workers, health, logs, retention. May import all of the bot but the terminal."""
