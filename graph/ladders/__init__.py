"""From a cause to the ordered actions of its fix, and how those move and end. Pure; may import engine and `graph.state`."""
