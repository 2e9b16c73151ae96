"""Customers of the cluster: their channels, cards and words, and what operators tell them."""
