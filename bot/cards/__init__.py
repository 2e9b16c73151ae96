"""Pure cards, one a file: `render` makes it, `read` gets back what its buttons were given. May import `bot.refusal` alone, and the values
that it shows from graph and tools."""
