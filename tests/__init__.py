"""What is held true of the product, in rooms like its own; may import everything."""
