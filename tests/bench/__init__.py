"""The benchmark: cases with a known truth, the arms that are compared on them, marks, gates and report."""
