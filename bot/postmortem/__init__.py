"""An incident as a page to keep and to hand on: gathered, put into sections, written as Markdown or PDF. Customers have one of their own."""
