"""Where an inventory's hosts come from: Slurm, Kubernetes, Ansible. Readers are pure, `open` fetches; may import the inventory and the transport's shape."""
