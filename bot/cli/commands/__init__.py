"""Typer commands, one module for each panel of `--help`. Heavy imports wait inside the commands."""
