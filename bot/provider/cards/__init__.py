"""Cards of tickets sent to a provider or received from a customer. Pure."""
