"""A ticket in somebody else's tracker as people see it here: what would leave, and how far it is there.

Pure; may import the other cards' blocks, text and buttons, and the cards of incidents."""
