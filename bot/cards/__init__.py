"""One card a file: `render` is pure and makes the card, `read` gets back what its buttons were given."""
