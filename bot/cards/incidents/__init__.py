"""What an incident looks like: progress, diagnosis, question, ticket, closing form, the list of what is open. Pure; imports the blocks,
text and buttons of `bot.cards`."""
