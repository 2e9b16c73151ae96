"""What is shown of lessons, pages, ideas and guides, to decide about or beside a diagnosis. Pure; may import the other cards' blocks, text and buttons."""
