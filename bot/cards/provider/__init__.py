"""What passes between a customer's own people and their provider: what would leave, how far it is, what arrived.

Pure; may import the other cards' blocks, text and buttons, and the customers' phrases."""
