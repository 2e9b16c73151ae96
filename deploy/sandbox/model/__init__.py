"""A stand-in language model without network: rules and faults behind an OpenAI-compatible endpoint."""
