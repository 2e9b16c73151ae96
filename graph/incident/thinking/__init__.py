"""What a model is given to read of an incident, and what it may think beyond the taxonomy. May import what the rest of `graph.incident` may."""
