"""Golden texts of answers: one conversation per fault, asked of a diagnosed thread in this order."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from graph.dialogue.intents import INTENTS, Intent
from graph.extraction.report_texts import UNKNOWN_JOB_SENTENCES
from tests.golden.written import stable
from tests.support.talk import FAULT, Talk

# intents that change the thread's state, asked last
ENDING = (Intent.UNDO, Intent.CORRECT, Intent.CLOSE, Intent.REOPEN, Intent.PAUSE)
QUESTIONS = (
    *(row.form for intent, row in INTENTS.items() if row.form and row.item in ("ask", "why", "status") and intent not in ENDING),
    "why not a cable on gpu-003?",
    "run nccl2 on gpu-001",
    "drain gpu-003",
    "reboot gpu-003",
    "is it safe to use gpu-003?",
    "approve",
    "thanks",
    "hello",
    "what is the meaning of life?",
    "undo that",
    "still broken",
    "it works again",
    "no, it was the cable",
    "be quiet for 2 hours",
    "stop",
    "drain gpu-003",
    "hand off",
    "status",
    "close, it was the cable",
    "status",
    "reopen",
)
SHORT = (
    "why?",
    "what should I do now?",
    "is it safe to restart the job?",
    "what happens if I approve?",
    "is it safe to use gpu-002?",
    "drain gpu-002",
    "status",
    "close, it is over",
    "status",
)
# file → faults, other cluster options, and questions
CLUSTERS: Mapping[str, tuple[Sequence[dict[str, Any]], Mapping[str, Any], Sequence[str]]] = {
    "gpu-lost": ([FAULT], {}, QUESTIONS),
    "clocks-low-and-a-silent-host": (
        [{"id": "G17", "node": "gpu-003", "gpu": 5, "t": -420}],
        {"modifiers": ["R6(check=smi, how=timeout)@gpu-002"]},
        SHORT,
    ),
    "preempted-job": ([{"id": "O06", "node": [f"gpu-{n:03}" for n in range(1, 5)], "t": -420}], {}, SHORT),
    "users-own-fault": ([{"id": "U05", "node": [f"gpu-{n:03}" for n in range(1, 5)], "t": -420}], {}, SHORT),
}


def answers() -> Mapping[str, str]:
    texts = {f"{name}.txt": asyncio.run(_conversation(*row)) for name, row in CLUSTERS.items()}
    return texts | {"unknown-jobs.txt": stable("\n".join(f"{why or '-'}: {said}" for why, said in UNKNOWN_JOB_SENTENCES.items()))}


async def _conversation(faults: Sequence[dict[str, Any]], more: Mapping[str, Any], asked: Sequence[str]) -> str:
    talk = await Talk.about(*faults, **more)
    return stable("\n\n".join([f"> {text}\n{await talk.says(text)}" for text in asked]))
