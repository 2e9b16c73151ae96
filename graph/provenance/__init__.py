"""Why a turn concluded what it reports: a graph of propositions and verifications, with invariants."""
