"""What can be wrong, with the evidence for and against it: YAML files, their rows and expressions. May import kb.keys, kb.readable and kb.yaml."""
