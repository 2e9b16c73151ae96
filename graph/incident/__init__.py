"""The incident graph: five nodes and the table that joins them, answers, questions, tickets and remediations.

Imports remediation, engine, extraction, model and checkpoints; reaches the outside world through `graph.context` alone.
"""
