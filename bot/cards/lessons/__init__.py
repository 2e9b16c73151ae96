"""What is shown of lessons: drafts to decide about, the form that changes one. Pure; may import the other cards' blocks, text and buttons."""
