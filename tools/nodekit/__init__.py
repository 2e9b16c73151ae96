"""What runs as root on a node: two POSIX shell scripts, generated from the catalogues, and nothing else. May import checks and remedies."""
