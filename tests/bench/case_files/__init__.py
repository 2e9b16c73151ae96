"""Case files: their format, generation from a seed, truth and lint."""
