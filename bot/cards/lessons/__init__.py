"""What is shown of lessons, pages and ideas: to decide about, to change, beside a diagnosis. Pure; may import the other cards' blocks, text and buttons."""
