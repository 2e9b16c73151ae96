"""Troubleshooting guides as plans: their rows, the YAML and Markdown that they are read from, drafts of them, and where a run of one stands.
Pure over its files; may import kb.taxonomy, kb.keys, kb.scan, kb.shapes and kb.yaml."""
