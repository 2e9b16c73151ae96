"""Run many checks on many hosts at once. Trouble with a host becomes a fact, never an exception.
May import the checks, the inventory and the modules that all tools share.
"""
