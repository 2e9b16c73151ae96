"""One file for each command of `rackmedic`, and how its answer is printed. May import every room of `bot` but the command line itself."""
