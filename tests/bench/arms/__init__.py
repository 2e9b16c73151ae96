"""The arms that are compared: RackMedic, its ablations, rules, models and agents."""
