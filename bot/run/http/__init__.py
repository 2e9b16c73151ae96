"""The guarded server behind both of our ports, and what each room is given to hear on that of others. May import what the rest of `bot.run` may."""
