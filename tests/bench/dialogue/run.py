"""Play one half of the messages and mark them."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.dialogue.messages import Asked, load_messages
from tests.bench.dialogue.play import Played, play
from tests.bench.dialogue.score import Marked, mark, summarise, table
from tests.bench.hostile.play import hushed
from tests.bench.model.endpoint import Access, Exchange

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Options of `bench dialogue`. `only`: situations, empty for all."""

    held_out: bool = False
    only: tuple[str, ...] = ()
    jobs: int = 1
    access: Access | None = None
    out: Path | None = None


def run_dialogue(wanted: Dialogue, say: Say) -> str:
    """Return the table; with `out`, write every answer and mark too."""
    asked = [row for row in load_messages(held_out=wanted.held_out) if not wanted.only or row.situation.id in wanted.only]
    marked = list(_marked(asked, wanted, say))
    summary = summarise(marked)
    if wanted.out:
        wanted.out.parent.mkdir(parents=True, exist_ok=True)
        wanted.out.write_text(json.dumps(_document(wanted, summary, marked), indent=1, ensure_ascii=False) + "\n")
    return table(summary)


def _document(wanted: Dialogue, summary: dict[str, Any], marked: Sequence[Marked]) -> dict[str, Any]:
    half, model = "held_out" if wanted.held_out else "open", wanted.access.name if wanted.access else ""
    return {"schema": 1, "half": half, "model": model, "summary": summary, "messages": [row.plain() for row in marked]}


def _marked(asked: Sequence[Asked], wanted: Dialogue, say: Say) -> Sequence[Marked]:
    with ProcessPoolExecutor(wanted.jobs, initializer=hushed) as pool:
        rows = []
        for one, played in zip(asked, pool.map(_one, asked, [wanted.access] * len(asked)), strict=True):
            rows.append(Marked(one, played, *mark(one.message, played)))
            say(f"{len(rows)}/{len(asked)} {one.name} {rows[-1].mark} {'; '.join(rows[-1].why)}".rstrip())
        return rows


def _one(asked: Asked, access: Access | None) -> Played:
    if access is None:
        return play(asked)
    line = Exchange(access).line(asked.name, "dialogue", 0)
    return play(asked, line)._replace(cost=line.cost, trouble=line.missing or line.dead)
