"""The node kit: two POSIX shell scripts, generated from the catalogues, and nothing else runs as root on a node.
May import checks and remedies.
"""
