"""Generate a ticket from pieces of the phrase bank; deterministic by seed. It may be wrong: a wrongly blamed layer or
host is part of the difficulty.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tools.inventory.host_ranges import fold_host_names

HERE = Path(__file__).parents[1]
LAYERS_BLAMED = {"GPU": "gpu", "INTERCONNECT": "ib", "USER": "user", "SYSTEM_SOFTWARE": "driver", "FRAMEWORK": "user", "OTHER": "storage"}


@dataclass(frozen=True, slots=True)
class Wish:
    """A ticket's content. `blames`: a wrongly blamed layer or host; `chatty`: with details and courtesies."""

    symptom: str
    hosts: Sequence[str]
    blames: str = ""
    chatty: bool = True
    names_hosts: bool = True


@cache
def bank() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((HERE / "phrases.yaml").read_text())
    return data


def sentences() -> list[str]:
    data = bank()
    rows = [*data["openers"], *data["details"], *data["closers"]]
    rows += [text for part in ("symptoms", "blames") for texts in data[part].values() for text in texts]
    return [text for text in rows if text]


def write(wish: Wish, roll: random.Random) -> str:
    data = bank()
    slots = {
        "where": _where(wish.hosts, roll) if wish.names_hosts else roll.choice(["our nodes", "the allocation", "those boxes"]),
        "job": roll.choice(data["jobs"]).format(number=roll.randrange(10_000, 99_999)),
        "when": roll.choice(data["times"]),
        "one": wish.blames,
    }
    said = [roll.choice(data["symptoms"][wish.symptom])]
    if wish.chatty:
        said = [roll.choice(data["openers"]), *said, *roll.sample(data["details"], roll.randrange(0, 3))]
    if wish.blames:
        said.insert(roll.randrange(2, len(said) + 1) if len(said) > 1 else 1, roll.choice(_blaming(wish)))
    if wish.chatty:
        said.append(roll.choice(data["closers"]))
    text = _joined([piece.format(**slots) for piece in said if piece], roll)
    return text.lower() if roll.random() < 0.15 and not _shouted(wish.hosts) else text


def wrong_layer(label: str, roll: random.Random) -> str:
    """Return a layer that is not at fault."""
    right = {LAYERS_BLAMED[label.partition(".")[0]]} if label else set()
    return str(roll.choice(sorted(set(bank()["blames"]) - right - {"host"})))


def _blaming(wish: Wish) -> list[str]:
    blames: dict[str, list[str]] = bank()["blames"]
    return blames.get(wish.blames) or blames["host"]


def _where(hosts: Sequence[str], roll: random.Random) -> str:
    return roll.choice([fold_host_names(hosts), ", ".join(hosts), " and ".join(hosts) if len(hosts) < 4 else fold_host_names(hosts)])


def _joined(pieces: Sequence[str], roll: random.Random) -> str:
    between = roll.choice([" ", " ", "\n", ". "])
    text = ""
    for piece in pieces:
        gap = "" if not text else between if text[-1] not in ".!?,:-" or between != ". " else " "
        text += gap + piece
    return text


def _shouted(hosts: Sequence[str]) -> bool:
    """Return whether lower-casing would change a host name."""
    return any(host != host.lower() for host in hosts)
