"""The B8 gate reports exactly the cases that became worse."""

import json

from tests.bench.regressions import KNOWN, open_cases, regressions, summary

ROWS = [
    {"case": "right", "right": True, "labels": ["GPU.BUS.Fallen_Off_Bus"], "confidence": 0.99},
    {"case": "unsure", "right": False, "labels": ["GPU.BUS.Fallen_Off_Bus"], "confidence": 0.6},
    {"case": "sure", "right": False, "labels": ["GPU.BUS.Fallen_Off_Bus"], "confidence": 0.97},
    {"case": "abstains", "right": False, "labels": ["ABSTAIN"], "confidence": 0.95},
    {"case": "no confidence", "right": False, "labels": ["GPU.BUS.Fallen_Off_Bus"], "confidence": None},
]


def test_a_wrong_cause_is_sure_only_above_the_threshold() -> None:
    assert summary(ROWS) == {"wrong": ["abstains", "no confidence", "sure", "unsure"], "sure_and_wrong": ["sure"]}


def test_only_what_became_worse_is_a_regression() -> None:
    known = {"wrong": ["gone", "unsure"], "sure_and_wrong": ["gone"]}
    assert regressions(known, {"wrong": ["new", "unsure"], "sure_and_wrong": ["unsure"]}) == [
        "wrong now: new",
        "sure and wrong now: unsure",
    ]


def test_the_known_answers_are_of_the_cases_that_exist() -> None:
    ids, known = {str(raw["id"]) for raw in open_cases()}, json.loads(KNOWN.read_text())
    assert known["cases"] == len(ids)
    assert {*known["wrong"], *known["sure_and_wrong"]} <= ids
