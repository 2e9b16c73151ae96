"""The `rackmedic` command: `main` registers every command, `commands` declares them, and one module runs each. One that cannot do its work raises Refusal."""
