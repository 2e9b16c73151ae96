"""The state of hosts is answered from facts with their age; an unobserved host is called unobserved."""

from graph.dialogue.intents import Intent
from graph.incident.answers.hosts import PARTLY_CHECKED_TEXT
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX
from graph.incident.answers.safety import FAILS_AGAIN_PREFIX
from tests.support.talk import FAULT, Talk


async def test_a_healthy_host_is_told_with_its_checks_and_their_age_and_nothing_is_looked_at() -> None:
    talk = await Talk.about()
    assert await talk.says("what about gpu-002?") == "gpu-002: 23 checks, read just now, nothing abnormal."
    talk.minutes = 10
    assert await talk.says("is gpu-002 ok?") == "gpu-002: 23 checks, read 11 min ago, nothing abnormal.\nSay `recheck gpu-002` for now."
    assert talk.ran == []


async def test_the_sick_host_is_told_with_its_cause_and_the_lines_that_show_it() -> None:
    talk = await Talk.about()
    first, *lines = (await talk.says("what about gpu-003?")).splitlines()
    title = talk.ports.taxonomy.titles["GPU.BUS.Fallen_Off_Bus"]
    assert first.startswith(f"gpu-003: {title} (gpu-003/gpu5), 98 % sure; 23 checks, ")
    assert lines[0].startswith("  gpu-003 · lspci · ")
    assert "0000:bb:00.0" in lines[0]
    assert lines[1].startswith("  gpu-003 · kernel log · read just now: 08:10:00 NVRM: Xid") or "NVRM: Xid" in lines[1]


async def test_the_others_are_told_in_a_line() -> None:
    talk = await Talk.about()
    assert await talk.says("how are the others?") == "gpu-[001-002,004]: 23 checks, read just now, nothing abnormal."


async def test_a_host_that_may_not_be_spoken_of_here_is_not() -> None:
    talk = await Talk.about()
    assert "slurm-controller" not in await talk.asks(Intent.HOST_STATE, hosts=("slurm-controller",))
    assert talk.ran == []


async def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    talk = await Talk.about()
    answer = await talk.says("what about gpu-007?")
    assert "gpu-007 (did you mean gpu-00" in answer
    assert talk.ran == []


async def test_a_host_that_could_not_be_looked_at_is_not_called_healthy() -> None:
    talk = await Talk.about(FAULT, modifiers=["R6(check=smi, how=timeout)@gpu-002"])
    first, *others = (await talk.says("what about gpu-002?")).splitlines()
    assert first.startswith("gpu-002: 22 checks, ")
    assert PARTLY_CHECKED_TEXT in first
    assert "smi" in others[0]


async def test_what_is_no_machines_fault_is_not_told_of_a_host_as_its_own() -> None:
    talk = await Talk.about({"id": "F01", "t": -420, "node": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"]})
    answer = await talk.asks(Intent.HOST_STATE, hosts=("gpu-001",))
    report = (await talk.rows()).report
    assert report
    (cause,) = report.root_causes
    title = talk.ports.taxonomy.titles[cause.label]
    assert cause.hosts == ()
    assert f"nothing wrong with the machine itself; it shows {title}" in answer
    assert (await talk.says("can we start the job again?")).startswith(f"{FAILS_AGAIN_PREFIX} {title}")


async def test_many_hosts_that_nothing_is_wished_for_are_refused_in_one_line() -> None:
    talk = await Talk.about()
    answer = await talk.asks(Intent.WISH_REMEDY, remedy="reboot", hosts=("gpu-001", "gpu-002", "gpu-004"))
    assert answer.startswith(NO_CARD_PREFIX)
    assert "gpu-[001-002,004]" in answer
    assert len(answer.splitlines()) == 1
