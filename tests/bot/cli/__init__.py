"""The command line: output, refusals and exit codes."""
