"""What can be wrong, with the evidence for and against it: YAML files, their rows and expressions. May import kb.fact_keys, kb.fact_text and kb.yaml_files."""
