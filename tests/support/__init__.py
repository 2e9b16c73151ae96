"""Shared test code: a clock, stand-ins that keep their contracts, servers, samples. Imports no test."""
