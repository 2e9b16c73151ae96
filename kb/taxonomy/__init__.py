"""What can be wrong, with the evidence for and against it: YAML files, and the rows and expressions they become. May import kb.keys and kb.yaml."""
