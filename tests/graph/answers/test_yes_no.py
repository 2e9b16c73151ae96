"""An answer begins with yes or no only if every word of the question was understood."""

import re

import pytest

from graph.incident.answers.safety import SAFE_PREFIX
from tests.support.talk import Talk

DECIDES = re.compile(r"(?i)\s*(yes|no|ja|nein|oui|non|si|sí)\b")

OTHER_QUESTIONS = """
should I page the datacenter?
should we call NVIDIA?
should I wake up the manager?
should we tell the customer?
should we open an RMA?
should we buy a spare?
should we wait?
should I restart slurmd?
shouldn't we drain it first?
can I reboot it myself?
can I not just restart the job?
can I go home?
can I trust this?
can Bob restart the job?
can we restart the switch?
can we run a burn-in on gpu-003?
can we use gpu-003 for the demo tomorrow?
can I restart the job with fewer GPUs?
can the job continue without gpu-003?
may I approve it?
will the job survive?
will it happen again?
would a reboot fix it?
does the reboot kill my job?
do we lose data?
did Bob approve?
is it safe to pull the cable?
is it safe to touch the node?
is it safe to upgrade the driver on gpu-001?
is it safe?
isn't it safe to use gpu-001?
is it not safe to restart the job?
is it ok to unplug gpu-003?
is it fine to leave it until Monday?
is it worth draining gpu-003?
is it dangerous to stand near gpu-003?
is it dangerous to keep going?
is the data safe?
is that covered by warranty?
is the fix reversible?
could it be the weather?
is this the first time?
how often did it happen?
has nobody seen this before?
did this happen to other teams before?
Bob wants to pull the cable. Is it safe?
any risk in swapping the cable now?
soll ich das Rechenzentrum anrufen?
kann ich den Knoten selbst neu starten?
ist es sicher, das Kabel zu ziehen?
überlebt der Job?
dürfen wir den Job neu starten?
ist das von der Garantie gedeckt?
""".strip().splitlines()


@pytest.mark.parametrize("question", OTHER_QUESTIONS)
async def test_a_question_that_is_not_wholly_read_is_answered_without_yes_or_no(question: str) -> None:
    talk = await Talk.about()
    answer = await talk.says(question)
    assert answer
    assert not DECIDES.match(answer), answer
    assert not re.search(r"(?m)^(Yes|No)[,:.! ]", answer), answer
    assert talk.ran == []


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("is it safe to restart the job?", "No, not on gpu-003"),
        ("can we restart the job?", "No, not on gpu-003"),
        ("should we use gpu-003?", "No, not on gpu-003"),
        ("can I use gpu-003 again", "No, not on gpu-003"),
        ("so, can we use it again?", "No, not on gpu-003"),
        ("is it safe to keep training on gpu-001 and gpu-002?", SAFE_PREFIX),
        ("ok to run jobs on gpu-001?", SAFE_PREFIX),
        ("may I start a new job on gpu-001?", SAFE_PREFIX),
    ],
)
async def test_whether_a_job_may_run_is_answered_with_yes_or_no(question: str, begins: str) -> None:
    talk = await Talk.about()
    assert (await talk.says(question)).startswith(begins)
