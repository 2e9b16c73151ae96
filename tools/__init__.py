"""Looking and acting: the only package that opens connections to hosts. Imports `kb`, nothing above."""
