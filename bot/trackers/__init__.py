"""Tickets in the trackers that a site has already: what leaves, one adapter a product, who sends it once and asks how far it is.
May import the store, cards' views, signatures of webhooks, and the graph's and tools' values.
"""
