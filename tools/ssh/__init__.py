"""SSH, the only package that opens connections to hosts.
May import the inventory and the modules that all tools share.
"""
