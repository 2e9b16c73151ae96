"""120 replies of three kinds of people in four languages, and what became of each."""
