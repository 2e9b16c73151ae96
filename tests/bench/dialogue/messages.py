"""Situations and messages: their files' format, read strictly.

Every scalar of a message file is read as text, so `02:56`, `no` and `412` mean what is written.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bot.refusal import Refusal
from tools.remedies import REMEDIES

HERE = Path(__file__).parent
SITUATIONS, MESSAGES = HERE / "situations.yaml", HERE / "messages"
HELD_OUT = "held_out"
Role = Literal["oncall", "approver", "customer", "manager"]
AUTHORS: Mapping[Role, str] = {"oncall": "olga", "approver": "priya", "manager": "dmitri", "customer": "carla"}
PEOPLE: Mapping[str, str] = {name: f"U0{name.upper()}" for name in AUTHORS.values()} | {"anton": "U0ANTON", "rackmedic": "U0RACKMED"}
_ACT = re.compile(r"none|recheck|narrow|take|close|reopen|pause|stop|hand_off|withdraw|look:\w+|propose:(?P<remedy>\*|\w+)")
ANYTHING = "*"  # in `must_not`: the bot has to keep out

Text = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(_Strict):
    """One message. `must`: groups of alternatives. `acts`: what it may cause; with `!` it has to."""

    text: Text
    by: str = ""
    must: tuple[Annotated[tuple[Text, ...], Field(min_length=1)], ...] = ()
    must_not: tuple[Text, ...] = ()
    acts: Annotated[tuple[Text, ...], Field(min_length=1)]
    silence_ok: bool

    @model_validator(mode="after")
    def _check(self) -> "Message":
        bad = [act for act in self.acts if not is_act(act.removesuffix("!"))]
        both = {word.casefold() for group in self.must for word in group} & {word.casefold() for word in self.must_not}
        problems = {
            f"by: there is no {self.by}; there are {', '.join(PEOPLE)}": self.by and self.by not in PEOPLE,
            f"acts: there is no {', '.join(bad)}": bad,
            "acts: what has to happen leaves no room for none": "none" in self.acts and any(act.endswith("!") for act in self.acts),
            f"must and must_not both have {', '.join(sorted(both))}": both,
            "must_not: '*' wants silence; leave must empty and set silence_ok": ANYTHING in self.must_not
            and (self.must or not self.silence_ok),
        }
        if found := [text for text, there in problems.items() if there]:
            raise ValueError("; ".join(found))
        return self


class MessageFile(_Strict):
    situation: str
    role: Role
    messages: tuple[Message, ...]


class Situation(_Strict):
    """A fault on a simulated cluster and the first message about it. `other`: the second person of its threads."""

    id: str
    case: Mapping[str, Any]  # profile, nodes, t0, faults
    text: Text
    other: Role
    customer_text: str = ""

    @property
    def raw_case(self) -> dict[str, Any]:
        return {**self.case, "id": f"dialogue-{self.id}", "layer": "dialogue", "ticket": {"channel": "slack", "text": self.text}}


class Asked(_Strict):
    """A message in its situation."""

    situation: Situation
    role: Role
    message: Message
    name: str  # file and number


def is_act(act: str) -> bool:
    found = _ACT.fullmatch(act)
    return found is not None and found["remedy"] in (None, ANYTHING, *REMEDIES)


@cache
def load_situations(path: Path = SITUATIONS) -> Mapping[str, Situation]:
    rows = [Situation.model_validate(row) for row in yaml.safe_load(path.read_text())]
    return {row.id: row for row in rows}


def load_file(path: Path) -> MessageFile:
    """Read one file. Raises Refusal with every problem."""
    try:
        return MessageFile.model_validate(yaml.load(path.read_text(), Loader=yaml.BaseLoader))  # texts only
    except ValidationError as error:
        rows = [f"{'.'.join(map(str, row['loc']))}: {row['msg'].removeprefix('Value error, ')}" for row in error.errors()]
        raise Refusal("\n".join(f"{path}: {row}" for row in rows), 2) from error
    except yaml.YAMLError as error:
        raise Refusal(f"{path}: is not YAML: {' '.join(str(error).split())}", 2) from error


def load_messages(*, held_out: bool = False, folder: Path = MESSAGES) -> list[Asked]:
    """Return one half of the messages: the open one, or the one kept aside."""
    rows, situations = list[Asked](), load_situations()
    for path in sorted((folder / HELD_OUT if held_out else folder).glob("*.yaml")):
        file = load_file(path)
        situation = situations.get(file.situation)
        if not situation or file.role not in ("oncall", situation.other) or path.stem != f"{file.situation}-{file.role}":
            raise Refusal(f"{path}: its name is SITUATION-ROLE.yaml, of a situation and a role that belong together", 2)
        named = [(f"{path.stem}#{number}", message) for number, message in enumerate(file.messages, 1)]
        rows += [Asked(situation=situation, role=file.role, message=message, name=name) for name, message in named]
    return rows
