"""Troubleshooting guides as plans: their rows, the YAML and Markdown that they are read from, and where a run of one stands.
Pure over its files; may import kb.redact, kb.taxonomy, kb.fact_keys, kb.schema and kb.yaml_files."""
