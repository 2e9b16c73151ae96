"""A soak test: real processes, many incidents, and kills, outages and full disks meanwhile. `python -m tests.soak`."""
