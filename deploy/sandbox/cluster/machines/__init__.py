"""What the machines are and do while nothing is wrong: their state, the job that trains on them, the noise in their logs, Slurm.
Imports no other room of the cluster."""
