"""The incident graph: five nodes and the table that joins them, answers, questions, tickets and fixes.

May import ladders, engine, reading, model and memory; asks the outside world through `graph.ports` alone.
"""
