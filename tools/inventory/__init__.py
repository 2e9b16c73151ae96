"""The hosts of the fleet, how to reach them, and what a healthy one of each SKU shows.
May import the checks' slots and the transport protocol.
"""
