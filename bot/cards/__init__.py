"""Pure cards, one a file: `render` makes it, `read` gets back what its buttons were given. Of `bot` it may import `bot.refusal` alone,
and from the floors below the values that it shows."""
