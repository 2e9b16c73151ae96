"""HTTP requests and responses as values, routes, size limits and webhook signatures. Pure; imports nothing of `bot`."""
