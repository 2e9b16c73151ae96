"""The only caller of a language model: client, endpoint, budget, prompts. May import `graph.state` alone."""
