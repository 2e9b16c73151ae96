"""The ways into the simulated cluster: real SSH, a transport in the same process, the control by which a person breaks and heals it.
May import every other room of the cluster."""
