"""The benchmark: cases with known truth, arms, marks, gates and report."""
