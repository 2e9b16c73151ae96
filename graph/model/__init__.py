"""The only caller of a language model: client, endpoint, budget, prompts, answer schemas."""
