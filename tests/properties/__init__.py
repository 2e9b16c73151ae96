"""What holds for whatever comes: any order of events, any output, and every seeded safety bug is caught."""
