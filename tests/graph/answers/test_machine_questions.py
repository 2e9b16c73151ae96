"""Questions about people, machines and the next step are answered from facts, the inventory and the taxonomy.

The phrasings are not among those that the classifier was trained with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from graph.context import ApprovalStatus, OnCallStatus
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.train import list_intent_texts
from graph.incident.answers.urgency import Urgency, UrgencyFacts, UrgencyReason, decide_urgency
from graph.incident.visibility import build_vocabulary
from graph.state import SIDE_KEY, TENANT_SIDE
from tests.support.talk import HERE, Talk

SLOW_LINK = {"id": "N05", "node": "gpu-002", "t": -900}  # its job 44686 of alice goes on
LOST_GPU = "GPU.BUS.Fallen_Off_Bus"

PHRASINGS: Mapping[Intent, Sequence[str]] = {
    Intent.JOBS_ON_HOST: (
        "which people have stuff running there",
        "whose training job sits on gpu-002 at the moment?",
        "what jobs does slurm run on gpu-002 now",
        "tell me which jobs are on gpu-002",
        "who is using the machine right now?",
        "which users have jobs on gpu-002",
        "is somebody's job still running on gpu-002?",
        "what is running on the node at the moment",
        "job ids on gpu-002 please",
        "which user runs the job on gpu-002?",
    ),
    Intent.HOST_IDENTITY: (
        "tell me the gpu's serial no.",
        "where in the hall is gpu-002",
        "what's the pci slot of that gpu",
        "behind which leaf does gpu-002 hang",
        "who does this gpu-002 belong to",
        "which driver version is installed on that machine",
        "what gpu model sits in gpu-002?",
        "in which slurm partition is gpu-002?",
        "which rack do I find gpu-002 in",
        "serial numbers of the gpus in gpu-002, please",
    ),
    Intent.PAGE_OR_WAIT: (
        "ring the dc guys now, or leave it for the morning shift?",
        "do we really need someone in the datacenter tonight?",
        "can that wait till tomorrow morning?",
        "does somebody have to drive to the site for it",
        "is an RMA needed here?",
        "must I wake up the hardware people for this",
        "page the dc now or is tomorrow fine?",
        "how urgent is this thing",
        "need a technician there?",
        "should we open an rma or not",
    ),
    Intent.WHO_IS_ON_IT: (
        "who's carrying the pager tonight",
        "anyone looking after this?",
        "is there a name next to this incident",
        "has somebody picked it up already",
        "whom can I call about this",
        "who is the person on call now",
        "which side has to fix this, ours or NVIDIA's",
        "who is working on this right now?",
        "is somebody assigned to it yet",
        "who's in charge of this one",
    ),
    Intent.WHO_MAY_APPROVE: (
        "who gave the go for that drain",
        "by whose approval did that run",
        "who approved the drain of gpu-002?",
        "who was it that approved this",
        "who clicked on approve for the drain",
        "which person approved it",
        "whose approval was it",
        "who has approved the reboot",
        "who signed that off",
        "who gave approval for it?",
    ),
    Intent.SAFE_TO: (
        "may gpu-002 go into production again",
        "ok to relaunch the training now?",
        "can we put gpu-002 back into production",
        "may we restart the training?",
        "can gpu-002 be put back to work",
        "could we restart the job on gpu-002 now",
        "is it ok to restart the run",
        "can gpu-002 take jobs again now",
        "is it safe to return gpu-002 to the pool",
        "can I restart my training",
    ),
}
QUESTIONS = [(intent, text) for intent, texts in PHRASINGS.items() for text in texts]
OTHER_LANGUAGES: Mapping[str, Intent] = {
    "welche Jobs laufen gerade auf dem Knoten": Intent.JOBS_ON_HOST,
    "wie lautet die Seriennummer der Karte": Intent.HOST_IDENTITY,
    "kann das bis morgen früh warten?": Intent.PAGE_OR_WAIT,
    "quels jobs tournent sur la machine": Intent.JOBS_ON_HOST,
    "quel est le numéro de série de la carte": Intent.HOST_IDENTITY,
    "est-ce que ça peut attendre demain ?": Intent.PAGE_OR_WAIT,
    "qué jobs están corriendo en el nodo": Intent.JOBS_ON_HOST,
    "cuál es el número de serie de la tarjeta": Intent.HOST_IDENTITY,
    "¿esto puede esperar hasta mañana?": Intent.PAGE_OR_WAIT,
    "这个节点上跑着什么作业": Intent.JOBS_ON_HOST,
    "这张卡的序列号是什么": Intent.HOST_IDENTITY,
    "能等到明天吗": Intent.PAGE_OR_WAIT,
}


async def read(talk: Talk, text: str) -> Intent:
    names = build_vocabulary(talk.ports.inventory, talk.ports.taxonomy, talk.ports.fleet.checks, HERE)
    return parse_message(text, names, talk.ports.clock.now()).intent


def test_no_phrasing_is_one_of_the_training_phrases() -> None:
    trained = {row.text for row in list_intent_texts()}
    assert not trained.intersection([*OTHER_LANGUAGES, *(text for _, text in QUESTIONS)])


@pytest.mark.parametrize("intent", PHRASINGS)
async def test_every_phrasing_is_understood_and_answered_without_a_look(intent: Intent) -> None:
    talk = await Talk.about(SLOW_LINK)
    expected = {
        Intent.JOBS_ON_HOST: ("gpu-002", "44686", "alice"),
        Intent.HOST_IDENTITY: ("gpu-002",),
        Intent.PAGE_OR_WAIT: ("gpu-002", "44686"),
        Intent.WHO_IS_ON_IT: ("gpu-002",),
        Intent.WHO_MAY_APPROVE: ("gpu-002",),
        Intent.SAFE_TO: ("gpu-002",),
    }[intent]
    either = {intent, *([Intent.FACT_DETAIL] if intent is Intent.HOST_IDENTITY else [])}  # which has driver versions, too
    misread = [(text, str(found)) for text in PHRASINGS[intent] if (found := await read(talk, text)) not in either]
    assert misread == []
    for text in PHRASINGS[intent]:
        answer = await talk.says(text)
        assert await read(talk, text) is not intent or all(word in answer for word in expected), (text, answer)
        assert talk.ran == []


@pytest.mark.parametrize("text", OTHER_LANGUAGES)
async def test_they_are_understood_in_other_languages(text: str) -> None:
    assert await read(await Talk.about(SLOW_LINK), text) is OTHER_LANGUAGES[text]


async def test_a_host_without_jobs_names_the_last_one_and_the_job_of_the_report() -> None:
    answer = await (await Talk.about()).asks(Intent.JOBS_ON_HOST, hosts=("gpu-003",))
    assert "IDLE" in answer
    assert "44686" in answer
    assert "4711" in answer
    assert "(sched, procs on gpu-003, read " in answer


async def test_jobs_that_were_not_read_are_not_denied() -> None:
    talk = await Talk.about(SLOW_LINK, modifiers=["R6(check=sched, how=timeout)@gpu-002", "R6(check=procs, how=timeout)@gpu-002"])
    answer = await talk.asks(Intent.JOBS_ON_HOST, hosts=("gpu-002",))
    assert "no job" not in answer
    assert "`recheck gpu-002`" in answer


async def test_a_job_is_found_by_its_id_and_an_unknown_one_is_nobodys() -> None:
    talk = await Talk.about(SLOW_LINK)
    assert "alice" in await talk.asks(Intent.JOBS_ON_HOST, job="44686")
    answer = await talk.asks(Intent.JOBS_ON_HOST, job="99999")
    assert "99999" in answer
    assert "alice" not in answer


@pytest.mark.parametrize("intent", [Intent.JOBS_ON_HOST, Intent.HOST_IDENTITY, Intent.WHO_IS_ON_IT])
async def test_the_tenants_side_learns_no_users_and_no_names_on_call(intent: Intent) -> None:
    talk = await Talk.about(SLOW_LINK)
    talk.ports = replace(talk.ports, on_call=on_call)
    message: dict[str, Any] = {"said": {"intent": str(intent), "hosts": ["gpu-002"]}, SIDE_KEY: TENANT_SIDE}
    operators = await talk.asks(intent, hosts=("gpu-002",))
    tenant = (await talk.presses("ask", **message)).reply
    assert tenant
    assert not {"alice", "Anton", "customer"} & {word for word in ("alice", "Anton", "customer") if word in tenant}
    assert intent is Intent.HOST_IDENTITY or "alice" in operators or "Anton" in operators


@pytest.mark.parametrize(
    ("text", "named", "holds"),
    [
        ("serial number?", {"device": "gpu2"}, ("gpu2",)),
        ("guid?", {"device": "mlx5_3"}, ("mlx5_3", "0x")),
        ("which slot?", {}, ("gpu5 0000:bb:00.0",)),
        ("which switch is it on?", {}, ("leaf-2",)),
        ("which driver?", {}, ("570.148.08", "12.8")),
        ("which model?", {}, ("H100", "dgx-h100-8")),
        ("which partition?", {}, ("partition gpu", "IDLE")),
        ("who owns it?", {}, ("group job",)),
    ],
)
async def test_each_value_of_a_machine_has_its_source(text: str, named: Mapping[str, Any], holds: Sequence[str]) -> None:
    answer = await (await Talk.about()).asks(Intent.HOST_IDENTITY, text=text, hosts=("gpu-003",), **named)
    assert all(word in answer for word in holds), answer
    assert " on gpu-003, read " in answer or "(inventory)" in answer


async def test_what_was_not_read_of_a_machine_is_not_known() -> None:
    talk = await Talk.about()
    lost = await talk.asks(Intent.HOST_IDENTITY, text="serial number?", hosts=("gpu-003",), device="gpu5")
    assert lost.startswith("I do not know")
    assert "gpu5" in lost
    assert (await talk.asks(Intent.HOST_IDENTITY, text="which rack?", hosts=("gpu-003",))).startswith("I do not know")
    port = await talk.asks(Intent.HOST_IDENTITY, text="which switch port?", hosts=("gpu-003",))
    assert "I do not know the switch's port" in port


async def test_a_host_of_others_is_not_described() -> None:
    talk = await Talk.about()
    for intent in (Intent.HOST_IDENTITY, Intent.JOBS_ON_HOST, Intent.PAGE_OR_WAIT):
        answer = await talk.asks(intent, text="which driver?", hosts=("slurm-controller",))
        assert "slurm-controller:" not in answer
        assert talk.ran == []


async def test_no_proven_cause_decides_nothing() -> None:
    talk = await Talk.about(
        modifiers=["R6(check=lspci, how=timeout)@*", "R6(check=dmesg, how=timeout)@*", "R6(check=smi, how=timeout)@gpu-003"]
    )
    answer = await talk.asks(Intent.PAGE_OR_WAIT)
    assert answer.startswith("I cannot tell")
    assert "This would tell: " in answer
    assert "RMA:" not in answer


async def test_what_the_plans_ask_of_people_is_told_with_the_cause() -> None:
    answer = await (await Talk.about()).asks(Intent.PAGE_OR_WAIT)
    assert "gpu-003" in answer
    assert "RMA: only if " in answer
    assert "reboot" in answer
    hands = await (await Talk.about(SLOW_LINK)).asks(Intent.PAGE_OR_WAIT)
    assert "Hands on site: needed" in hands


def build_facts(**more: Any) -> UrgencyFacts:
    return UrgencyFacts(**{"is_proven": True, "hands": "now", **more})


@pytest.mark.parametrize(
    ("facts", "urgency", "reason"),
    [
        (UrgencyFacts(is_proven=False), Urgency.UNKNOWN, UrgencyReason.NO_CAUSE),
        (build_facts(owner="customer", busy_hosts=("a",)), Urgency.WAIT, UrgencyReason.CUSTOMER_ACTS),
        (build_facts(scope="rack"), Urgency.PAGE, UrgencyReason.SHARED_PART),
        (build_facts(unread_hosts=("a",)), Urgency.UNKNOWN, UrgencyReason.NOT_READ),
        (build_facts(busy_hosts=("a",), serving_hosts=("a",)), Urgency.DRAIN_FIRST, UrgencyReason.JOB_RUNS),
        (build_facts(busy_hosts=("a",), serving_hosts=("a",), kin_hosts=("b",)), Urgency.PAGE, UrgencyReason.NO_SPARE),
        (
            build_facts(busy_hosts=("a",), serving_hosts=("a",), kin_hosts=("b",), spare_hosts=("b",)),
            Urgency.DRAIN_FIRST,
            UrgencyReason.SPARE,
        ),
        (build_facts(serving_hosts=("a",)), Urgency.DRAIN_FIRST, UrgencyReason.NO_JOB),
        (build_facts(), Urgency.WAIT, UrgencyReason.OUT_OF_SERVICE),
        (build_facts(hands="later", serving_hosts=("a",)), Urgency.DRAIN_FIRST, UrgencyReason.REMOTE_FIX),
        (build_facts(hands="never", drains=False, serving_hosts=("a",)), Urgency.WAIT, UrgencyReason.REMOTE_FIX),
        (
            build_facts(hands="later", busy_hosts=("a",), serving_hosts=("a",), kin_hosts=("b",)),
            Urgency.DRAIN_FIRST,
            UrgencyReason.NO_SPARE,
        ),
    ],
)
def test_urgency_follows_from_facts_alone(facts: UrgencyFacts, urgency: Urgency, reason: UrgencyReason) -> None:
    decision = decide_urgency(facts)
    assert decision.urgency is urgency
    assert reason in decision.reasons


async def on_call() -> Sequence[OnCallStatus]:
    return (OnCallStatus("infra", ("Anton", "Priya")), OnCallStatus("network", could_not="the schedule answers 503"))


async def test_who_is_on_call_is_told_by_source_and_what_could_not_be_read_is_said() -> None:
    talk = await Talk.about()
    assert "I do not know who is on call" in await talk.asks(Intent.WHO_IS_ON_IT)
    talk.ports = replace(talk.ports, on_call=on_call)
    answer = await talk.asks(Intent.WHO_IS_ON_IT)
    assert "Anton, Priya" in answer
    assert "could not look who is on call by network" in answer
    assert "503" in answer


async def test_who_approved_is_told_with_the_time() -> None:
    at = datetime(2026, 5, 20, 3, 1, tzinfo=UTC)

    async def decisions(incident: str) -> Sequence[ApprovalStatus]:
        return (ApprovalStatus("apr-1", "Drain gpu-003", (), 1, ("Olga",), open=False, approved_at=at),)

    talk = await Talk.about()
    talk.ports = replace(talk.ports, decisions=decisions)
    answer = await talk.says("who approved that?")
    assert "Nothing is waiting for approval." in answer
    assert "Approved: Drain gpu-003, by Olga at 2026-05-20 03:01 UTC." in answer


async def test_a_faulty_node_is_put_back_by_no_yes() -> None:
    answer = await (await Talk.about()).says("can I put gpu-003 back into service?")
    assert "lspci" in answer
    assert not answer.lower().startswith("yes")
