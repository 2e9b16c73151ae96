"""Why a turn came to what it reports, as a graph that can be read and checked: propositions, verifications, critiques, refinements and remedies."""
