"""Between people and the app under test: what they do becomes events and envelopes, and Socket Mode carries them. May import the workspace."""
