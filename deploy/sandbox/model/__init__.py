"""A language model that needs no network: rules and faults behind an OpenAI-compatible endpoint."""
