"""Which hosts there are, how they are reached, what a healthy one shows. May import the checks' slots and the transport's shape."""
