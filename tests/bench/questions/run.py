"""`rackmedic bench questions`: every arm over all questions, model arms asked or replayed.

A recording answers its own day's questions. Its figures are kept beside it (`python -m tests.bench.questions.run keep
--made WORDS`), so that after a change of prompts or causes they stay in the report, marked as of older prompts, until a
new recording.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from graph.model.endpoint import ChatEndpoint, OpenAIEndpoint
from graph.model.recording import RecordedEndpoint
from tests.bench.model.endpoint import Access
from tests.bench.questions.arms import Knowledge, by_words, with_model, without_model
from tests.bench.questions.bare_model import directly
from tests.bench.questions.catalogue import Questions, load_questions
from tests.bench.questions.endpoint import Heard, Shared
from tests.bench.questions.report import OF_A_MODEL, section
from tests.bench.questions.score import Answers, metric_a, metric_b, metric_c

ANSWERS: Final = Path(__file__).parents[1] / "answers"
RECORDED, KEPT = ANSWERS / "questions.jsonl", ANSWERS / "questions-results.json"
SCHEMA: Final = 1
MODEL: Final = "gpt-4o"  # model name in the recording's questions
Say = Callable[[str], None]


def figures(questions: Questions, answers: Answers) -> dict[str, Any]:
    """Return an arm's shares by metric."""
    b = metric_b(questions.needs, questions.sentences, answers)
    both = {"both": b.pop("all")} if "all" in b else {}
    return {
        "A": metric_a(questions.extractions, answers.extracted),
        "B": both | b,
        "C": metric_c(questions.attributions, answers.attributed),
    }


async def by_model(questions: Questions, knowledge: Knowledge, endpoint: ChatEndpoint) -> dict[str, Any]:
    """Run both model arms concurrently."""
    shared = Shared(endpoint)
    ours, bare = Heard(shared), Heard(shared)
    helped, asked = await asyncio.gather(with_model(questions, knowledge, ours), directly(questions, knowledge, bare))
    return {
        "with_model": {**figures(questions, helped), **_cost(ours)},
        "model": {**figures(questions, asked), **_cost(bare)},
    }


def _cost(heard: Heard) -> dict[str, int]:
    return {"calls": heard.asked, "unanswered": heard.missing, "tokens_in": heard.tokens[0], "tokens_out": heard.tokens[1]}


def ask_now(access: Access, recording: Path, say: Say) -> dict[str, Any]:
    """Ask an endpoint and record. Recorded answers are not asked again, so an interrupted run continues."""
    endpoint = OpenAIEndpoint(access.url, access.key, access.name, seconds=access.seconds, tries=1)
    return asyncio.run(ask_all(load_questions(), Knowledge(), endpoint, recording, access.key, say))


async def ask_all(
    questions: Questions, knowledge: Knowledge, endpoint: ChatEndpoint, recording: Path, key: str, say: Say
) -> dict[str, Any]:
    """Repeat until a pass brings no further answer, because an endpoint may answer late."""
    left: int | None = None
    while True:
        arms = await by_model(questions, knowledge, RecordedEndpoint(endpoint, endpoint.model, recording, key))
        now = sum(arms[name]["unanswered"] for name in OF_A_MODEL)
        say(f"{now} call(s) without an answer")
        if not now or (left is not None and now >= left):
            await endpoint.aclose()
            return arms
        left = now


def measure(replay: Path = RECORDED, kept_in: Path = KEPT, fresh: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all arms: rules live; model arms as just asked (`fresh`), replayed, or kept of older prompts."""
    questions, knowledge = load_questions(), Knowledge()
    found: dict[str, Any] = {"rules": figures(questions, without_model(questions, knowledge))}
    found["words"] = figures(questions, by_words(questions, knowledge))
    of_model = dict(fresh) if fresh is not None else _replayed(questions, knowledge, replay)
    old = kept(kept_in) if replay == RECORDED else None
    for name in OF_A_MODEL:
        found[name] = best(of_model.get(name), (old or {}).get("arms", {}).get(name))
    return {"schema": SCHEMA, "counts": dict(questions.counts), "arms": found, "made": (old or {}).get("made", "")}


def _replayed(questions: Questions, knowledge: Knowledge, replay: Path) -> dict[str, Any]:
    if not replay.exists():
        return {}
    return asyncio.run(by_model(questions, knowledge, RecordedEndpoint(None, model_of(replay), replay)))


def best(now: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return today's figures if complete, else the kept ones, marked, else what exists."""
    if now and not now["unanswered"]:
        return dict(now)
    if before:
        return {**before, "older": True}
    return (
        dict(now)
        if now and now["unanswered"] < now["calls"]
        else {"not_run": "no model was asked, and no recording answers these questions"}
    )


def model_of(recording: Path) -> str:
    """Return the model of a recording."""
    with recording.open() as lines:
        head: dict[str, Any] = json.loads(lines.readline() or "{}")
    return str(head.get("model", MODEL))


def kept(path: Path = KEPT) -> dict[str, Any] | None:
    """Return the kept figures, or None."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found if found.get("schema") == SCHEMA else None


def keep(doc: Mapping[str, Any], made: str, path: Path = KEPT) -> None:
    """Store a model's figures with their origin."""
    arms = {name: doc["arms"][name] for name in OF_A_MODEL if "not_run" not in doc["arms"][name]}
    path.write_text(json.dumps({"schema": SCHEMA, "made": made, "arms": arms}, indent=1) + "\n")


def main(words: Sequence[str]) -> int:
    """Print the section, or keep today's figures."""
    asks = argparse.ArgumentParser(prog="python -m tests.bench.questions.run", description=__doc__.partition("\n")[0])
    asks.add_argument("what", choices=("show", "keep"))
    asks.add_argument("--replay", type=Path, default=RECORDED)
    asks.add_argument("--results", type=Path, help="keep what `bench questions --json` wrote when it asked, instead of replaying")
    asks.add_argument("--made", default="", help="who answered, when and how, in a sentence")
    given = asks.parse_args(list(words))
    doc = json.loads(given.results.read_text()) if given.results else measure(given.replay)
    if given.what == "keep":
        keep(doc, given.made)
        doc["made"] = given.made
    print(section({"questions": doc}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
