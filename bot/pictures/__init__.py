"""What people look at: values in, an image's bytes out. Pure; of `bot` it imports nothing, from below only values to draw."""
