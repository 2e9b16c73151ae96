"""Merging the rankings of rules and model for a text."""

from graph.extraction.text_classifier import MODEL_WEIGHT, blend_rankings

RULES = [("A.B.C", 0.7), ("A.B.D", 0.2), ("E.F.G", 0.1)]


def test_a_sure_model_leads_and_all_sums_to_one() -> None:
    ranked = blend_rankings(RULES, [("E.F.G", 0.9)])
    assert [label for label, _ in ranked] == ["E.F.G", "A.B.C", "A.B.D"]
    assert abs(sum(p for _, p in ranked) - 1) < 1e-9


def test_what_a_model_leaves_open_the_rules_tell() -> None:
    assert blend_rankings(RULES, []) == RULES
    assert blend_rankings(RULES, [("A.B.D", 0.1)])[0][0] == "A.B.C"


def test_probabilities_that_sum_to_too_much_are_taken_as_shares() -> None:
    ranked = dict(blend_rankings(RULES, [("A.B.C", 1.0), ("A.B.D", 1.0), ("E.F.G", 1.0)]))
    assert abs(sum(ranked.values()) - 1) < 1e-9
    assert min(ranked.values()) >= MODEL_WEIGHT / 3
