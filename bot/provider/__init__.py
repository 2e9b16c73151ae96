"""The line between a customer's own RackMedic and their provider's: the outbox and who empties it, the intake at the other end.
May import desk, store, policy, cards' views, and the graph's and tools' values.
"""
