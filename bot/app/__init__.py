"""Composition: build clients, stores, services and handlers from settings, and run them as processes."""
