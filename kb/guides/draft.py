"""A guide that people wrote as prose → a draft in YAML: what its lists and headings ask for, as far as the catalogues have it. Pure, by rules.

A draft does nothing: somebody reads it, gives its steps their conditions, and saves it in the site's folder. What no table has stays a sentence
for people, so that nothing that the guide says is lost.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import yaml

from kb.guides.guide import slug
from kb.guides.load import LONGEST_SAID, LONGEST_WAIT, MOST_STEPS
from kb.scan import lines_in

LONGEST: Final = 64 * 1024
MOST_ITEMS: Final = 100
"""Characters of a guide that are read, and items of its lists."""
_ITEM = re.compile(r"\s{0,12}(?:[-*+]|\d{1,3}[.)])\s+(?P<says>\S.*)")
_WAITS = re.compile(r"\bwait\b[^.\d]{0,40}(?P<number>\d{1,4}) ?(?P<unit>s|sec|seconds?|m|min|minutes?)\b", re.IGNORECASE)
_MARKUP = re.compile(r"[`*_>#]+")
CHANGES: Final[Mapping[str, str]] = {
    "drain": "drain_node",
    "cordon": "drain_node",
    "reboot": "reboot",
    "power cycle": "power_cycle",
    "power-cycle": "power_cycle",
    "gpu reset": "gpu_reset",
    "--gpu-reset": "gpu_reset",
    "reset the gpu": "gpu_reset",
    "fabricmanager": "restart_fabricmanager",
    "cancel the job": "cancel_job",
    "scancel": "cancel_job",
}
"""Words of guides → the remedy that does it. `fabricmanager` only beside a restart."""


@dataclass(frozen=True, slots=True)
class DraftWords:
    """By which words a catalogue's entries are known in guides: phrases in lower case → id. `exclusive`: checks that need GPUs for themselves."""

    checks: Mapping[str, str] = field(default_factory=dict)
    exclusive: Collection[str] = ()
    remedies: Collection[str] = ()


def drafted(text: str, name: str, known: DraftWords) -> str:
    """The draft, as YAML with a head that says what is left to do."""
    title, items = _items(text[:LONGEST])
    steps: list[dict[str, Any]] = []
    for says in items:
        for told in _does(says, known):
            steps.append({"id": _id(says, [str(step["id"]) for step in steps]), **told})
    left_out = len(steps) - MOST_STEPS
    steps = steps[:MOST_STEPS] or [{"id": "read", "ask": "Read the guide: it has no list whose items could become steps."}]
    guide = {"id": _name(name), "title": (title or name)[:LONGEST_SAID].ljust(3, "."), "symptoms": [], "words": [], "steps": steps}
    left = sum("ask" in step for step in steps)
    cut = f"\n# {left_out} more did not fit: a guide has {MOST_STEPS} steps at most." if left_out > 0 else ""
    head = (
        f"# A draft of {len(steps)} steps, {left} of them left to people. Before it is used: name symptoms or words by which it is found, say\n"
        "# with `after` what may go side by side, and with `when` on what a step depends; take out what nobody needs."
    )
    return f"{head}{cut}\n{yaml.safe_dump({'guides': [guide]}, sort_keys=False, allow_unicode=True, width=140)}"


def _items(text: str) -> tuple[str, list[str]]:
    """The title, and what lists ask for; a guide without lists is read by its smaller headings."""
    title, items, headings = "", list[str](), list[str]()
    for line in lines_in(text):
        if line.startswith("# ") and not title:
            title = _plain(line)
        elif line.startswith("##"):
            headings.append(_plain(line))
        elif found := _ITEM.fullmatch(line):
            items.append(found["says"])
    return title, [item for item in items or headings if _plain(item)][:MOST_ITEMS]


def _does(says: str, known: DraftWords) -> Iterator[dict[str, Any]]:
    """The fields of the steps that one item asks for; of several the change last, for it rests on what was seen."""
    low = says.lower()
    told = _plain(says)[:LONGEST_SAID]
    looks = _looks(low, known.checks)
    alone = [check for check in looks if check in known.exclusive]
    free = [check for check in looks if check not in known.exclusive]
    remedy = next((remedy for words, remedy in CHANGES.items() if words in low and _meant(words, low) and remedy in known.remedies), "")
    asks: list[dict[str, Any]] = [
        *([{"wait": wait}] if (wait := _wait(says)) else []),
        *([{"look": free}] if free else []),
        *([{"look": alone, "approve": True}] if alone else []),
        *([{"remedy": remedy}] if remedy else []),
    ]
    yield from ({"does": told, **ask} for ask in asks) if asks else ({"ask": told},)


def _looks(low: str, checks: Mapping[str, str]) -> list[str]:
    """Checks whose words stand in it, each word read once: of `nvidia-smi topo -m` only the longer is meant."""
    found: dict[int, str] = {}
    for phrase in sorted(checks, key=len, reverse=True):
        at = _place(phrase, low)
        if at >= 0:
            found[at] = checks[phrase]
            low = f"{low[:at]}{' ' * len(phrase)}{low[at + len(phrase) :]}"
    return list(dict.fromkeys(found[at] for at in sorted(found)))


def _place(phrase: str, low: str) -> int:
    """Where a phrase stands as words of their own; -1 where it does not."""
    at = low.find(phrase)
    while at >= 0:
        before, after = low[at - 1 : at], low[at + len(phrase) : at + len(phrase) + 1]
        if not (before.isalnum() or before in ("-", "_") or after.isalnum() or after in ("_",)):
            return at
        at = low.find(phrase, at + 1)
    return -1


def _meant(words: str, low: str) -> bool:
    return words != "fabricmanager" or "restart" in low


def _wait(says: str) -> str:
    found = _WAITS.search(says[:LONGEST_SAID])
    if found is None:
        return ""
    minutes = found["unit"].lower().startswith("m")
    seconds = int(found["number"]) * (60 if minutes else 1)
    return f"{found['number']}{'min' if minutes else 's'}" if 0 < seconds <= LONGEST_WAIT.total_seconds() else ""


def _plain(line: str) -> str:
    return " ".join(_MARKUP.sub(" ", line).split())


def _id(says: str, taken: Collection[str]) -> str:
    words = [word for word in slug(_plain(says)[:80]).encode("ascii", "ignore").decode().split("_") if word][:3]
    name = "_".join(words)[:24].strip("_")
    name = name if name[:1].isalpha() and len(name) > 1 else f"step_{name}".rstrip("_")
    return name if name not in taken else next(f"{name}_{n}" for n in count(2) if f"{name}_{n}" not in taken)


def _name(name: str) -> str:
    found = slug(name).encode("ascii", "ignore").decode()[:32].strip("_")
    return found if re.fullmatch(r"[a-z][a-z0-9_]{1,31}", found) else f"guide_{found}"[:32].rstrip("_")
