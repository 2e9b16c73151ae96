"""Questions about an action and about a number or a name: ten phrasings each, none of them trained."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
import yaml

from bot.tenants.cards.answers import classify_answer
from graph.dialogue.details import ACTION_DETAILS, FACT_DETAILS
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.train import CLASSIFIERS, PHRASES_FOLDER
from graph.incident.answers.action_details import NO_ACTION_TEXT, NOTHING_RUNS_TEXT
from graph.incident.answers.fact_details import FACT_SUBJECTS
from kb.fact_keys import find_key
from tests.graph.test_conversation import NAMES, NOW
from tests.support.talk import Talk
from tools.remedies import REMEDIES

pytestmark = pytest.mark.slow

DISK: Final = {"id": "S10", "node": "gpu-003", "t": -420}
CLOCK: Final = {"id": "S17", "node": "gpu-002", "t": -600}
BUS: Final = {"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}
HOT: Final = {"id": "G15", "node": "gpu-003", "gpu": 5, "t": -420}
MOUNT: Final = {"id": "S12", "node": "gpu-003", "t": -420}
ECC: Final = {"id": "G05", "node": "gpu-003", "gpu": 5, "t": -420}
PORT: Final = {"id": "N05", "node": "gpu-003", "t": -420}
DRIVER: Final = {"id": "S01", "node": "gpu-003", "t": -420}
ORPHAN: Final = {"id": "S18", "node": "gpu-003", "gpu": 2, "t": -420}

ACTION: Final = frozenset({Intent.ACTION_DETAIL, Intent.ON_APPROVE})
FACT: Final = frozenset({Intent.FACT_DETAIL})
EITHER: Final = FACT | {Intent.HOST_IDENTITY}  # what a machine is and what was read of it overlap


class QuestionKind(NamedTuple):
    """Questions of one kind about one fault; each answer has `holds`. Lines with facts say check and time by `source`."""

    fault: Mapping[str, Any]
    intents: frozenset[Intent]
    detail: str
    holds: Sequence[str]
    questions: str
    source: str = "read 03:10 UTC"


KINDS: Final[Mapping[str, QuestionKind]] = {
    "files": QuestionKind(
        DISK, ACTION, "files", ("/tmp", "/var/crash", "72 hours", "checkpoints"),
        """
        Will that delete any of my checkpoints?
        are any of our checkpoints deleted by the cleanup
        which files would the cleanup remove?
        what data gets deleted there
        does the fix erase files that we need
        is our training data deleted by this fix?
        which folders does it delete from?
        will it wipe the datasets
        tell me which files the fix deletes
        do the checkpoints stay where they are with this fix?
        """,
        "",
    ),
    "duration": QuestionKind(
        BUS, ACTION, "duration", ("5 to 15 min", "15 min"),
        """
        how long will the reboot take, roughly?
        how long does the reboot keep gpu-003 away
        how many minutes will the reboot need
        What is the downtime for the reboot?
        duration of that reboot please
        how long is the node unavailable during the reboot?
        how much time does a reboot of the node take
        how many minutes does rebooting take?
        and how long is the outage with the reboot
        what outage should we expect from the reboot
        """,
        "",
    ),
    "reach": QuestionKind(
        ORPHAN, ACTION, "reach", ("gpu-003", "one process", "bob", "job 44549"),
        """
        who is affected by the fix?
        who would be affected if you do that
        which users are affected by this action
        does the fix affect other people
        who will be hit by the fix
        is any other team affected by this fix?
        which people does your fix affect
        who is going to notice the fix
        does the action affect anyone besides bob
        tell me who is affected by this remedy
        """,
    ),
    "risk": QuestionKind(
        DISK, ACTION, "risk", ("destructive", "only a backup"),
        """
        is the fix safe to run?
        how safe is the cleanup
        is this cleanup dangerous?
        what are the risks of the cleanup
        how risky is your fix
        what could go wrong with the cleanup?
        is there any risk in the fix
        is that action a risk for us
        is the cleanup a safe thing
        what's the danger of this fix
        """,
        "",
    ),
    "undo": QuestionKind(
        BUS, ACTION, "undo", ("resume_node", "gpu-003"),
        """
        can the drain be undone?
        how do I undo the drain afterwards?
        is the drain reversible
        how would I revert the drain
        can we roll the fix back, I mean is there a rollback
        is there a way to undo the fix later?
        can that fix be reverted later on
        how is the fix undone
        what is the way back from the drain
        how do we undo this fix if it was wrong
        """,
        "",
    ),
    "jobs": QuestionKind(
        CLOCK, ACTION, "jobs", ("Outage: none: the clock steps once", "Ends: nothing", "gpu-002"),
        """
        will the fix kill our jobs?
        does this fix kill the running training
        would my training survive the fix
        is my job killed by that fix?
        does the fix end my job on gpu-002
        will the jobs be stopped by the fix
        can the training continue during the fix?
        does your fix interrupt running jobs
        do our jobs crash when you do the fix
        is the running job hurt by this fix
        """,
    ),
    "command": QuestionKind(
        BUS, ACTION, "command", ("scontrol update NodeName=gpu-003 State=DRAIN", "slurm-controller"),
        """
        what exactly would you run there?
        which exact command is behind the fix?
        show me the command of the fix
        what is the exact command of that fix
        which command would you execute for the fix
        what commands does the fix run exactly?
        print the exact command please
        give me the command line of the fix
        what precisely would you execute
        which commands would you run for this fix exactly?
        """,
        "",
    ),
    "clock": QuestionKind(
        CLOCK, FACT, "clock_offset", ("gpu-002", "-412 s", "(time"),
        """
        how far off is the clock there?
        by how much is the clock wrong?
        how many seconds is the clock of gpu-002 off?
        what's the offset of the clock?
        how large is the clock skew
        how far does the clock drift
        what is the clock offset on gpu-002?
        how wrong is the clock of gpu-002
        the clock is off by how many seconds?
        tell me the clock offset
        """,
    ),
    "temperature": QuestionKind(
        HOT, FACT, "temperature", ("gpu-003", "gpu5", "91 C", "nvidia-smi"),
        """
        how hot did the card get?
        how hot is it?
        how hot did gpu-003 get?
        what temperature does the gpu have
        how hot are the gpus of gpu-003?
        what was the temperature of the gpu?
        which temperature did the card reach
        how many degrees did it reach
        what's the maximum temperature on gpu-003
        how warm did the gpu get?
        """,
    ),
    "gpu": QuestionKind(
        BUS, EITHER, "gpu", ("gpu-003", "gpu5", "lspci"),
        """
        which GPU is it exactly?
        which gpu is the broken one?
        which gpu is the one that fell off?
        which of the cards is it
        which card on gpu-003 is it?
        which gpu was it again
        what is the pci address of that gpu
        which gpu index is it?
        which device is it on gpu-003
        tell me which gpu it is
        """,
    ),
    "mount": QuestionKind(
        MOUNT, FACT, "mount", ("gpu-003", "/data", "store"),
        """
        which mount is it exactly?
        which mount is the one that hangs?
        which mount is hanging on gpu-003?
        which mount point is it?
        what mount is affected
        which filesystem hangs
        which of the mounts is it
        which mount does not answer
        name of the mount please
        tell me which mount it is
        """,
    ),
    "since": QuestionKind(
        BUS, FACT, "since", ("gpu-003", "03:02 UTC", "job log"),
        """
        Since when is it like this?
        since when has gpu-003 been broken?
        since when is the gpu gone?
        when did it start exactly?
        when did that start
        since when do we have this
        at what time did it start?
        when was the first error seen
        since what time is it broken
        when did the fault first appear?
        """,
        "",
    ),
    "versions": QuestionKind(
        DRIVER, EITHER, "versions", ("570.148.08", "570.86.15", "gpu-003", "mods"),
        """
        which driver versions are on these nodes?
        what driver versions do they have?
        which versions of the driver are on them
        which driver version is on which node
        what driver is on these hosts?
        driver versions of the nodes?
        which drivers are installed on the nodes
        what version of the driver is on them?
        tell me the driver versions on all hosts
        which driver version do these hosts have
        """,
    ),
    "errors": QuestionKind(
        ECC, FACT, "errors", ("gpu-003", "gpu5", "48211", "nvidia-smi"),
        """
        how many errors are there?
        how many errors did you find on gpu-003?
        how many ecc errors did it count
        what is the error count on gpu-003?
        how many corrected errors are there
        how many memory errors does gpu-003 have
        number of ecc errors please
        how many errors were counted
        how many errors did the gpu have?
        what does the ecc counter say
        """,
    ),
    "bandwidth": QuestionKind(
        PORT, FACT, "bandwidth", ("gpu-003", "mlx5_5", "100 Gb/s", "ibstat"),
        """
        what bandwidth do you see there?
        what bandwidth do you see on gpu-003?
        which bandwidth does the port have
        how much bandwidth do you see?
        what bandwidth does it get
        what speed do you see on the link
        how fast is the port on gpu-003?
        how many gb/s do you see
        what is the bandwidth of the link?
        tell me the bandwidth of gpu-003
        """,
    ),
}  # fmt: skip
OTHER_LANGUAGES: Final = (
    (DISK, ACTION, "files", "/var/crash", ("Löscht der Fix meine Checkpoints?", "La réparation efface mes checkpoints ?")),
    (DISK, ACTION, "files", "/var/crash", ("¿El arreglo borra mis checkpoints?", "这个修复会删除检查点吗？")),
    (BUS, ACTION, "duration", "15 min", ("Wie lange dauert der Reboot?", "Combien de temps dure le reboot ?", "¿Cuánto dura el reboot?", "重启要多长时间？")),
    (CLOCK, ACTION, "jobs", "Ends: nothing", ("Killt der Fix meinen Job?", "Est-ce que la réparation tue mon job ?")),
    (CLOCK, ACTION, "jobs", "Ends: nothing", ("¿El arreglo mata mi job?", "这个修复会杀掉我的作业吗？")),
    (CLOCK, FACT, "clock_offset", "-412 s", ("Wie weit geht die Uhr auf gpu-002 falsch?", "De combien l'horloge de gpu-002 est décalée ?")),
    (CLOCK, FACT, "clock_offset", "-412 s", ("¿Cuánto se desvía el reloj de gpu-002?", "gpu-002 的时钟差多少？")),
    (HOT, FACT, "temperature", "91 C", ("Wie heiß ist die GPU?", "Quelle température a la gpu ?", "¿Qué temperatura tiene la gpu?", "显卡温度是多少？")),
    (BUS, FACT, "since", "03:02 UTC", ("Seit wann ist das so?", "Depuis quand ?", "¿Desde cuándo está así?", "从什么时候开始的？")),
)  # fmt: skip


def list_questions(kind: QuestionKind) -> list[str]:
    return [line.strip() for line in kind.questions.strip().splitlines()]


ASKED: Final = [pytest.param(name, question, id=question) for name, kind in KINDS.items() for question in list_questions(kind)]


def test_each_kind_has_ten_phrasings_that_were_not_trained() -> None:
    trained = {row.text.lower().strip("?. ") for row in CLASSIFIERS["intents"].list_texts()}
    for name, kind in KINDS.items():
        assert len(set(list_questions(kind))) == 10, name
        assert not trained & {question.lower().strip("?. ") for question in list_questions(kind)}, name


@pytest.mark.parametrize(("name", "question"), ASKED)
async def test_a_question_gets_its_intent_and_the_ids_and_numbers(name: str, question: str) -> None:
    kind, message = KINDS[name], parse_message(question, NAMES, NOW)
    assert message.intent in kind.intents
    assert message.detail == (kind.detail if message.intent is not Intent.HOST_IDENTITY else "")
    talk = await Talk.about(dict(kind.fault))
    answer = await talk.says(question)
    assert talk.ran == []
    if message.intent is Intent.HOST_IDENTITY:
        assert str(kind.fault["node"]) in answer
    else:
        assert not [text for text in (*kind.holds, kind.source) if text not in answer], answer


@pytest.mark.parametrize(("fault", "intents", "detail", "holds", "questions"), OTHER_LANGUAGES)
async def test_so_does_one_in_another_language(
    fault: dict[str, Any], intents: frozenset[Intent], detail: str, holds: str, questions: tuple[str, ...]
) -> None:
    for question in questions:
        message = parse_message(question, NAMES, NOW)
        assert (message.intent in intents, message.detail) == (True, detail), question
        assert holds in await (await Talk.about(dict(fault))).says(question), question


def test_every_detail_has_its_facts_and_every_key_exists() -> None:
    assert set(FACT_SUBJECTS) == set(FACT_DETAILS) - {"since"}
    assert not [key for subject in FACT_SUBJECTS.values() for key in subject.keys if find_key(key) is None]


@pytest.mark.parametrize("remedy", sorted(REMEDIES))
@pytest.mark.parametrize("detail", ["", *ACTION_DETAILS])
async def test_every_detail_of_every_remedy_is_answered_from_its_row(detail: str, remedy: str) -> None:
    talk = await Talk.about(BUS)
    answer = await talk.asks(Intent.ACTION_DETAIL, remedy=remedy, detail=detail, hosts=("gpu-001",))
    assert "{" not in answer.replace("{{", "")
    if remedy != "cancel_job":  # a job is named as what a fix ends
        assert f"Nothing found on gpu-001 needs {remedy}" in answer
    assert NOTHING_RUNS_TEXT in answer


async def test_without_a_fix_nothing_is_said_of_it() -> None:
    talk = await Talk.about(faults=[])
    assert await talk.asks(Intent.ACTION_DETAIL, detail="duration") == NO_ACTION_TEXT


async def test_what_was_not_read_is_not_told_and_the_look_is_offered() -> None:
    talk = await Talk.about(BUS, modifiers=["R6(check=time, how=timeout)@gpu-001"])
    answer = await talk.asks(Intent.FACT_DETAIL, detail="clock_offset", hosts=("gpu-001",))
    assert answer.startswith("I do not know")
    assert "`recheck gpu-001`" in answer


async def test_a_time_that_no_log_tells_is_not_made_up() -> None:
    talk = await Talk.about(faults=[])
    assert (await talk.asks(Intent.FACT_DETAIL, detail="since")).startswith("I do not know since when")


async def test_an_unknown_host_is_said_and_gets_no_number_of_another() -> None:
    answer = await (await Talk.about(HOT)).says("how hot is gpu-077?")
    assert "gpu-077" in answer
    assert "91" not in answer


async def test_hosts_that_the_channel_may_not_name_are_not_told() -> None:
    talk = await Talk.about(HOT)
    answer = await talk.asks(Intent.FACT_DETAIL, detail="temperature", hosts=("slurm-controller",))
    assert "slurm-controller" not in answer


@pytest.mark.parametrize(("name", "question"), ASKED)
def test_a_customer_is_told_no_command_and_no_reading(name: str, question: str) -> None:
    wanted = {"inside"} if KINDS[name].intents >= FACT else {"ours"}
    assert classify_answer(parse_message(question, NAMES, NOW), NOW) in wanted


def test_the_phrases_are_in_every_language() -> None:
    for language, least in (("en", 25), ("de", 6), ("fr", 6), ("es", 6), ("zh", 6)):
        phrases = yaml.safe_load((PHRASES_FOLDER / "intents" / f"{language}.yaml").read_text())
        assert all(len(phrases[intent]) >= least for intent in ("action_detail", "fact_detail"))
