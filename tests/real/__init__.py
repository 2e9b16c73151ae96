"""RackMedic against real Slurm, sshd, systemd and chrony, on a rack of containers."""
