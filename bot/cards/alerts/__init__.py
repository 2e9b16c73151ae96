"""What is shown of a monitoring system's alerts. Pure; may import the other cards' blocks and text."""
