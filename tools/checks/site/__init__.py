"""A site's own checks, from its files: commands that only read, and the facts in what they print. May import the check row and kb.yaml_files."""
