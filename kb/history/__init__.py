"""Past incidents, how alike a text is to them, and the index that finds them. May import kb.taxonomy and kb.yaml_files."""
