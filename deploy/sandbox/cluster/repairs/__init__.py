"""What the node kit's tools and Slurm's commands do to a machine: an answer, and deeds that the simulation applies. May import
machines, render and simulation."""
