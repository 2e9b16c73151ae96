"""AidAI (Microsoft, 2025) rebuilt as an arm, its published figures, and the report that sets ours beside them."""
