"""Rendered texts as files: cards, answers, help pages, reports, refusals. `make fix` renews them, reviewers read the diff, and other tests pin no prose."""
