"""What a customer is shown of an incident of theirs, and what our own people are shown of a customer. Pure; may import the other cards' blocks,
text and buttons."""
