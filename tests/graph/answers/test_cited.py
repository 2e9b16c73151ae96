"""Every line of an answer cites check and host, quotes output, states the extent and time of the look, or is one of
RackMedic's own statements (OWN).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from graph.dialogue.details import ACTION_DETAILS, FACT_DETAILS
from graph.dialogue.intents import Intent
from graph.dialogue.said import ALL, OTHERS
from graph.incident.answers.answer_context import CHECK_DISPLAY_NAMES
from graph.incident.answers.routes import HANDLERS_BY_INTENT
from kb.taxonomy.loader import load_taxonomy
from tests.support.talk import FAULT, Talk, case_of
from tools.checks import CHECKS
from tools.inventory.host_ranges import expand_host_range

pytestmark = pytest.mark.slow


LEAVES: Final = load_taxonomy().titles
TITLES: Final = sorted({LEAVES[label] for label in load_taxonomy().leaves}, key=len, reverse=True)
TITLE: Final = re.compile("|".join(map(re.escape, TITLES)))
NAMES: Final = {name: check for check in CHECKS for name in (check, CHECK_DISPLAY_NAMES.get(check, check))}
CHECK: Final = re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(map(re.escape, NAMES), key=len, reverse=True))})(?![\w-])")
HOST: Final = re.compile(r"gpu-(?:\d{3}|\[[\d,-]+\])")
EXTENT: Final = re.compile(r"\b\d+ checks?\b")
ON: Final = re.compile(r"\(([^()]*) on (gpu-(?:\d{3}|\[[\d,-]+\]))\)")

WORLDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a GPU fell off": {"faults": [FAULT]},
    "and a host could not be asked": {"faults": [FAULT], "modifiers": ["R6(check=smi, how=timeout)@gpu-002"]},
    "no machine's fault": {"faults": [{"id": "F01", "t": -420, "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"]}]},
    "well": {"faults": []},
    "nothing proven": {
        "faults": [FAULT],
        "modifiers": ["R6(check=lspci, how=timeout)@*", "R6(check=dmesg, how=timeout)@*", "R6(check=smi, how=timeout)@gpu-003"],
    },
}
ASKED: Final[tuple[tuple[Intent, Mapping[str, Any]], ...]] = (
    (Intent.HOST_STATE, {"hosts": ("gpu-003",)}),
    (Intent.HOST_STATE, {"hosts": ("gpu-001",)}),
    (Intent.GROUP_STATE, {"group": ALL}),
    (Intent.GROUP_STATE, {"group": OTHERS}),
    (Intent.SHOW_OUTPUT, {"form": "picture", "text": "the temperatures as a picture"}),
    (Intent.SHOW_PICTURE, {"picture": "timeline"}),
    (Intent.SHOW_PICTURE, {"picture": "walk"}),
    (Intent.SHOW_PICTURE, {"picture": "bandwidth"}),
    (Intent.EXPLAIN, {}),
    (Intent.WHY_NOT, {"category": "INTERCONNECT"}),
    (Intent.WHY_NOT, {"labels": ("GPU.BUS.Fallen_Off_Bus",)}),
    (Intent.WHY_NOT, {"labels": ("GPU.MEMORY.Row_Remap_Failure",)}),
    (Intent.COMPARE, {}),
    (Intent.CHANGED_SINCE, {}),
    (Intent.HAPPENED_BEFORE, {}),
    (Intent.SAFE_TO, {"text": "restart the job?"}),
    (Intent.SAFE_TO, {"text": "can we restart the job?", "predicate": "usable"}),
    (Intent.SAFE_TO, {"remedy": "reboot", "hosts": ("gpu-003",), "predicate": "changeable"}),
    (Intent.SAFE_TO, {"remedy": "reboot", "hosts": ("gpu-003",)}),
    (Intent.WHAT_NOW, {}),
    (Intent.ON_APPROVE, {}),
    (Intent.WHO_MAY_APPROVE, {}),
    (Intent.WHO_IS_ON_IT, {}),
    *((Intent.ACTION_DETAIL, {"detail": detail}) for detail in ("", *ACTION_DETAILS)),
    (Intent.ACTION_DETAIL, {"remedy": "reboot", "hosts": ("gpu-001",), "detail": "duration"}),
    *((Intent.FACT_DETAIL, {"detail": detail}) for detail in ("", *FACT_DETAILS)),
    (Intent.JOBS_ON_HOST, {}),
    (Intent.JOBS_ON_HOST, {"hosts": ("gpu-001",)}),
    (Intent.JOBS_ON_HOST, {"job": "99999"}),
    (Intent.HOST_IDENTITY, {"hosts": ("gpu-003",)}),
    (Intent.HOST_IDENTITY, {"hosts": ("gpu-002",), "text": "which slot, rack, switch port, guid and owner?"}),
    (Intent.PAGE_OR_WAIT, {}),
    (Intent.SNOOZE, {}),
    (Intent.SUMMARY, {}),
    (Intent.SUMMARY, {"audience": "ticket"}),
    (Intent.STATUS, {}),
    (Intent.WISH_REMEDY, {"remedy": "gpu_reset", "hosts": ("gpu-003",)}),
    (Intent.WISH_REMEDY, {"remedy": "reboot", "hosts": ("gpu-001",)}),
    (Intent.UNDO, {}),
    (Intent.RUN_CHECK, {"check": "dmesg"}),
    (Intent.META, {}),
    (Intent.SMALL_TALK, {}),
    (Intent.THANKS, {}),
    (Intent.HELP, {}),
    (Intent.TYPED_APPROVAL, {}),
    (Intent.NOT_UNDERSTOOD, {}),
    (Intent.REPORT, {}),
    (Intent.TAKE, {}),
    (Intent.ASSIGN, {}),
    (Intent.WAITS, {}),
    (Intent.PAUSE, {}),
    (Intent.CORRECT, {"category": "INTERCONNECT"}),
    (Intent.CORRECT, {"labels": ("GPU.BUS.Fallen_Off_Bus",)}),
    (Intent.CLOSE, {}),
    (Intent.REOPEN, {}),
)
# what RackMedic did, does or waits for, or asks people to do
OWN: Final = re.compile(
    "^(?:"
    + "|".join(
        (
            r"\d+ hosts: \d+ ",  # counts what the lines below it say
            r"\d+ moments since",
            r"Found: |Nothing found\.",  # whose causes follow, each with what it rests on
            r".*: (?:ruled out|not ruled out.*)\.$",  # whose reasons follow
            r"Cause: .*\.$|No, not on .*:$|The cause is not proven, because:$",
            r"Since .* nothing new was logged, as far as it was read|Settings that were changed without",
            r"Say |On it: |Read .* ago|Which|I cannot judge what was not checked|… and|• … and|• \d+ looks failed|• not every machine",
            r"Could not look|could not look|Not known: |Nothing of what I went into",
            r"I cannot say yes or no",
            r"I (?:could not look|am |read |did not understand|go on|don't ping|have (?:checked|looked)|know |propose |check )",
            r"From here I can see|In this thread",
            r"(?:No|A) language model ",
            r"None of the closed incidents",
            r"Recorded incidents from|Closed incidents that may|What is kept|Name a host",  # of other times and sites; a title in them is caught
            r"It (?:affects|needs|takes|is not closed|waits)|Nothing found on|RackMedic does",
            r"It is part of a fix|Approve or reject on its card",
            r"Nothing (?:to fix|is waiting|is open|runs|of)|A person must do this|Answer what I asked|Tell me|There is nothing",
            r"If approved|Required before running|Afterwards|Then: |Undo: |Waiting for approval|Nobody|Use the Approve button|The post-incident report",
            r"Outage: |Files: |Ends: |Command(?: on [\w-]+)?: `|The command itself|Risk: |Hosts: |Verified by: |Users with|No fix is planned|I do not know",
            r".* is (?:waiting for approval|a later step of the fix that waits: .*)\. Nothing runs",
            r"What: |Since: |State: |Who: |Incident |Reported: |Hosts looked at|Fix: |Next: |Cause: none proven$|Ticket: |Held: ",
            r"I found no fault\.$|I have proven no cause so far\.$|Hello|You are welcome|In your own words|Only the Approve",
            r".*\(inventory\)\.$|I do not know|The report names job|I cannot tell|This would tell: |• Not explained: |• I did not read",
            r"Hands on site: |RMA: |• the first step for this cause|• it concerns a shared part|• the job's owner has to act",
            r"Close the incident with it\?|No reminders here|.*: its card stays open",
            r"U1 is on it|Whom\?|Noted|Pending approvals|The evidence is unchanged|Closed: |Reopened|It was|On which|There is no ticket|nvidia-smi disturbs|\w+ disturbs",
            r"Nothing but|No .* was read of|No bandwidth by message size|\d\d:\d\d:\d\d (?:asked|well|put up|waits|unsure)",
            r"kernel log disturbs|What else went into it:$|\s*(?:likelier|less likely) by ",
        )
    )
    + ")"
)
# lines that may name a cause without citing it: what is done about it, a person's word, or an unobserved cause
NAMES_ONE: Final = re.compile(
    r"^(?:State: |Fix: |• |It is part of a fix: |Held: |\d\d:\d\d:\d\d put up|Closed: |Could not look: |.*: not ruled out)"
)
"""Lines that may name a cause for what is done about it, because people named it, or because nothing was found out of it."""
HEAD: Final = re.compile(r"^(?:Found: |Cause: .*\.$)")
"""Lines whose causes are named again below, each with what it rests on."""


def lines_of(reply: str) -> Iterator[tuple[str, str]]:
    """Yield (line, what is quoted below it)."""
    rows = reply.splitlines()
    for n, line in enumerate(rows):
        below = []
        for more in rows[n + 1 :]:
            if not more.startswith(("  ", "• ")):
                break
            below.append(more)
        yield line, "\n".join(below)


def cites(text: str) -> bool:
    """Return whether the text names a check and a host, or hosts."""
    return bool(CHECK.search(text)) and bool(HOST.search(text) or re.search(r"\b\d+ hosts?\b|handed in", text))


def rests(line: str, below: str) -> bool:
    return cites(line) or cites(below) or bool(EXTENT.search(line) and (HOST.search(line) or "hosts" in line)) or bool(OWN.match(line))


# intents whose answers list other incidents, phrases or next steps
LISTED: Final = frozenset({Intent.HAPPENED_BEFORE, Intent.HELP, Intent.WHAT_NOW, Intent.STATUS})


def uncited(line: str, below: str) -> list[str]:
    """Return the causes in a line that neither it nor the quotes below it cite."""
    found = list(TITLE.finditer(line))
    if not found or cites(below):
        return []
    ends = [*(one.start() for one in found[1:]), len(line)]
    return [one.group() for one, end in zip(found, ends, strict=True) if not CHECK.search(line[one.end() : end])]


async def world(name: str) -> Talk:
    more = dict(WORLDS[name])
    return await Talk.of(case_of(*more.pop("faults"), **more))


@pytest.mark.parametrize("name", WORLDS)
async def test_each_line_of_an_answer_rests_on_what_was_read_or_is_of_its_own_doings(name: str) -> None:
    talk = await world(name)
    read = {(fact.host, fact.check) for fact in await talk.facts()}
    for intent, named in ASKED:
        reply = await talk.asks(intent, **named)
        for line, below in lines_of(reply):
            assert rests(line, below) or (intent in LISTED and line.startswith("• ")), f"{intent}: {line}"
            line = re.sub(r"^Noted, on your word: [^.]*\.", "", line)  # people's own
            bare = [] if NAMES_ONE.match(line) else uncited(line, below)
            again = {one for other, more in lines_of(reply) if other != line for one in TITLE.findall(other) if not uncited(other, more)}
            assert not [one for one in bare if not (HEAD.match(line) and one in again)], f"{intent}: {line}"
            for checks, hosts in ON.findall(line):
                named_checks = {NAMES[one.group()] for one in CHECK.finditer(checks)}
                assert named_checks <= {check for host, check in read if host in expand_host_range(hosts)}, f"{intent}: {line}"


def test_every_answer_of_the_table_is_looked_through() -> None:
    assert set(HANDLERS_BY_INTENT) <= {intent for intent, _ in ASKED}
