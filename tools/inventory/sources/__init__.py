"""Sources of an inventory's hosts: Slurm, Kubernetes and Ansible. Parsers are pure; only `loader` fetches.
May import the inventory and the transport protocol.
"""
