"""Property tests: invariants under any order of events and any output, and seeded safety bugs that must be caught."""
