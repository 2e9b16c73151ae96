"""Real parts that a story adds to a rack for a while: Slurm's accounting, a container engine, a BMC. May import the rack's containers and its layout."""
