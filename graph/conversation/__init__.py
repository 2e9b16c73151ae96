"""What a message in a thread asks for, and whether it is said to us: a closed table of intents, read without a model. Pure."""
