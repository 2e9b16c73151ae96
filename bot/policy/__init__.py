"""Who may see, ask and approve what: tables and pure functions, and one question to whoever knows the people. May import refusals, and the
graph's and tools' values."""
