"""What one person is shown in a conversation of their own. Pure; may import the other cards' blocks and words, and the cards of incidents."""
