"""What a model reads of an incident, and how its answers are verified."""
