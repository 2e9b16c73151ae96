"""Healthy machines: their state, the training job, log noise and Slurm. Imports no other package of the cluster."""
