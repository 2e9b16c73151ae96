"""`rackmedic …`: parse arguments, call, print; one module for each group of `--help`. Heavy imports wait inside the commands."""
