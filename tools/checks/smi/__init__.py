"""Everything nvidia-smi prints, in each of its formats. May import what the other checks import: the row, facts, devices, kb."""
