"""Cards that a customer sees, and the cards about customers that operators see."""
