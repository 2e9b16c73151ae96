"""Numbers of many GPUs as one picture: values in, an image's bytes out. Pure; of `bot` it imports nothing, from below only facts and their keys."""
