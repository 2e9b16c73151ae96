"""The command line: what it prints, what it refuses, what it exits with."""
