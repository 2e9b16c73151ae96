"""Shared test support: clocks, stand-ins that keep the real contracts, servers, samples. Imports no test."""
