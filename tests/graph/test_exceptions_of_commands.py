"""Commands that exclude hosts, and shell notation for hosts: excluded hosts are not included."""

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.dialogue.intents import Intent
from graph.dialogue.read import in_plain_notation, parse_message
from graph.dialogue.said import ALL, OTHERS, ParsedMessage, Vocabulary
from graph.incident.visibility import build_vocabulary
from tests.support.talk import HERE, Talk, case_of

WISH, RECHECK = Intent.WISH_REMEDY, Intent.RECHECK
N1, N2, N3, N4 = "gpu-001", "gpu-002", "gpu-003", "gpu-004"


@pytest.fixture(scope="module")
def names() -> Vocabulary:
    ports = Talk.over(build_case_run(case_of(), controller="slurm-controller")).ports
    return build_vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, HERE)


def understood(text: str, names: Vocabulary) -> ParsedMessage:
    return parse_message(text, names, case_of().t0)


# fmt: off
COMMANDS = [
    ("drain gpu-00{1..2}",                               WISH,    (N1, N2),     (),       ""),
    ("drain gpu-{001,002}",                              WISH,    (N1, N2),     (),       ""),
    ("recheck gpu-00{1,3}",                              RECHECK, (N1, N3),     (),       ""),
    ("drain gpu-00{1..2} not gpu-002",                   WISH,    (N1,),        (N2,),    ""),
    ("drain gpu-001 not gpu-002",                        WISH,    (N1,),        (N2,),    ""),
    ("reboot gpu-001 and not gpu-002",                   WISH,    (N1,),        (N2,),    ""),
    ("drain gpu-[001-003], but not gpu-002",             WISH,    (N1, N3),     (N2,),    ""),
    ("drain gpu-[001-004] minus gpu-003",                WISH,    (N1, N2, N4), (N3,),    ""),
    ("drain gpu-[001-004] without gpu-003 and gpu-004",  WISH,    (N1, N2),     (N3, N4), ""),
    ("drain everything except gpu-002 pls",              WISH,    (),           (N2,),    ALL),
    ("drain everything except gpu-00{1..2}",             WISH,    (),           (N1, N2), ALL),
    ("please reboot all nodes except gpu-001 & gpu-002", WISH,    (),           (N1, N2), ALL),
    ("recheck everything except gpu-001",                RECHECK, (),           (N1,),    ALL),
    ("drain every node other than gpu-004",              WISH,    (),           (N4,),    ALL),
]
# fmt: on


@pytest.mark.parametrize(("text", "intent", "hosts", "left_out", "group"), COMMANDS)
def test_what_a_command_excepts_is_left_out(
    text: str, intent: Intent, hosts: tuple[str, ...], left_out: tuple[str, ...], group: str, names: Vocabulary
) -> None:
    said = understood(text, names)
    assert (said.intent, said.sure, said.hosts, said.left_out, said.group) == (intent, True, hosts, left_out, group)
    assert said.text == text


@pytest.mark.parametrize("text", ["it was gpu-001 not gpu-002", "is it gpu-001 but not gpu-002?", "jobs run on all nodes except gpu-002"])
def test_what_is_no_command_is_not_changed(text: str) -> None:
    assert in_plain_notation(text) == text


def test_host_called_fine_is_left_out_when_the_others_are_asked_for(names: Vocabulary) -> None:
    said = understood("gpu-002 is fine, look at the others", names)
    assert (said.hosts, said.left_out, said.group) == ((), (N2,), OTHERS)
