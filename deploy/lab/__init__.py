"""A real rack on one machine: Slurm, sshd, systemd, chrony and a fabric in containers. For root on Debian or Ubuntu; the product never imports it."""
