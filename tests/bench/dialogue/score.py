"""Mark answers by their words and acts, and sum the marks up."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.bench.aidai.answers import share, wilson
from tests.bench.dialogue.messages import ANYTHING, Asked, Message
from tests.bench.dialogue.play import Played

Mark = Literal["right", "so-so", "missed", "wrong", "silent"]
MARKS: tuple[Mark, ...] = ("right", "so-so", "missed", "wrong", "silent")
_LINK = re.compile(r"<[^<>|\s]+\|([^<>]*)>")
_DRESS = re.compile(r"[*`~]|(?<!\w)_|_(?!\w)")
_PLAIN = str.maketrans({"’": "'", "‘": "'", "‑": "-", "–": "-", "−": "-", "\u00a0": " ", "\u202f": " ", "∗": "*"})


@dataclass(frozen=True, slots=True)
class Marked:
    asked: Asked
    played: Played
    mark: Mark
    why: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        who = {"message": self.asked.name, "situation": self.asked.situation.id, "role": self.asked.role, "text": self.asked.message.text}
        cost = {name: getattr(self.played.cost, name) for name in ("calls", "tokens_in", "tokens_out", "usd")}
        came = {"mark": self.mark, "why": list(self.why), "acts": list(self.played.acts), "answer": self.played.answer}
        return who | came | cost | {"trouble": self.played.trouble}


def mark(message: Message, played: Played) -> tuple[Mark, tuple[str, ...]]:
    """Return the mark with its reasons."""
    wrong = [*_bad_acts(message.acts, played.acts), *_bad_words(message.must_not, played)]
    if wrong:
        return "wrong", tuple(wrong)
    if not played.answer.strip():
        return ("right", ()) if message.silence_ok else ("silent", ("nothing was said",))
    missing = [group for group in message.must if not any(contains(played.answer, word) for word in group)]
    reasons = tuple(f"without {' / '.join(group)}" for group in missing)
    if not missing:
        return "right", ()
    return ("so-so" if len(missing) < len(message.must) else "missed"), reasons


def _bad_acts(listed: Sequence[str], acts: Sequence[str]) -> list[str]:
    allowed = [act.removesuffix("!") for act in listed]
    needless = [f"did {act}" for act in acts if not any(_allows(other, act) for other in allowed)]
    undone = [act for act in listed if act.endswith("!") and not any(_covers(act.removesuffix("!"), done) for done in acts)]
    return needless + [f"did not {act.removesuffix('!')}" for act in undone]


def _covers(listed: str, act: str) -> bool:
    return listed == act or (listed == "recheck" and act.startswith("look:")) or (listed == "propose:*" and act.startswith("propose:"))


def _allows(listed: str, act: str) -> bool:
    """Return whether an act is part of a listed one: a narrowed or reopened incident and a proposal need fresh looks."""
    looks = act == "recheck" or act.startswith("look:")
    return _covers(listed, act) or (looks and (listed in ("narrow", "reopen") or listed.startswith("propose:")))


def _bad_words(words: Sequence[str], played: Played) -> list[str]:
    said = f"{played.answer}\n{played.files}"
    found = [word for word in words if (said.strip() if word == ANYTHING else contains(said, word))]
    return [f"says {word}" if word != ANYTHING else "says something" for word in found]


def contains(answer: str, word: str) -> bool:
    """Return whether a text has a word, number or phrase as whole tokens."""
    wanted = _normalise(word)
    left = r"(?<!\w)(?<!\d[.,:])" if wanted[:1].isalnum() else ""
    right = r"(?!\w)" if wanted[-1:].isalnum() else ""
    return re.search(f"{left}{re.escape(wanted)}{right}", _normalise(answer)) is not None


def _normalise(text: str) -> str:
    plain = _DRESS.sub("", _LINK.sub(r"\1", text.translate(_PLAIN)))
    return " ".join(re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain).casefold().split())


def summarise(rows: Sequence[Marked]) -> dict[str, Any]:
    """Return marks and Wilson's 95 % interval of the right ones: all, by role, by situation."""
    by_role = {role: _sums([row for row in rows if row.asked.role == role]) for role in dict.fromkeys(row.asked.role for row in rows)}
    situations = dict.fromkeys(row.asked.situation.id for row in rows)
    by_situation = {one: _sums([row for row in rows if row.asked.situation.id == one]) for one in situations}
    model = {"calls": sum(row.played.cost.calls for row in rows), "usd": sum(row.played.cost.usd for row in rows)}
    model["unanswered"] = sum(bool(row.played.trouble) for row in rows)
    return {"all": _sums(rows), "roles": by_role, "situations": by_situation, "model": model}


def _sums(rows: Sequence[Marked]) -> dict[str, Any]:
    counts = Counter(row.mark for row in rows)
    low, high = wilson(counts["right"], len(rows)) if rows else (0.0, 1.0)
    acts = sum(any(why.startswith("did ") and not why.startswith("did not ") for why in row.why) for row in rows)
    return {"n": len(rows), **{name: counts[name] for name in MARKS}, "unasked_acts": acts, "right_low": low, "right_high": high}


def table(summary: dict[str, Any]) -> str:
    """Return the summary as a Markdown table."""
    rows = [("all", summary["all"]), *summary["roles"].items(), *summary["situations"].items()]
    lines = [f"| | right [95 %] | {' | '.join(MARKS[1:])} | acts not asked for |", f"|---|---|{'---|' * len(MARKS)}"]
    for name, sums in rows:
        cells = " | ".join(str(sums[one]) for one in MARKS[1:])
        lines.append(f"| {name} | {share(sums['right'], sums['n'])} | {cells} | {sums['unasked_acts']} |")
    model = summary["model"]
    told = (
        f"\nModel: {model['calls']} calls, {model['usd']:.2f} USD, no answer to {model['unanswered']} messages."
        if any(model.values())
        else ""
    )
    return "\n".join(lines) + told
