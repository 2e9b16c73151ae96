"""The one port on which others may call us, and what each room is given to hear them. May import what the rest of `bot.run` may."""
