"""What a message in a thread asks for, and whether it is addressed to the bot: a closed table of intents. Pure."""
