"""How RackMedic answers messages in an incident's thread, written by people who know neither code nor tests."""
