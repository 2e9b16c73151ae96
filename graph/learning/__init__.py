"""What closed incidents teach: lessons drafted for people to decide about. Pure; may import `graph.rows` and `graph.state`."""
