"""Nothing of a tenant's workload leaves with a ticket. Canaries are in all that a check reads (the job's user and name,
log, environment, texts and attachments), and in other site data (addresses, controllers, other hosts); the ticket
document is searched for them.
"""

import json
from typing import Any

import pytest

from bot.provider.ticket_documents import list_private_names
from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.state import Attachment, InboxItem
from graph.ticket_export.document_builder import ExportPrivacy, build_ticket_document
from graph.ticket_export.received_ticket import parse_ticket
from tests.support.talk import Talk, case_of
from tests.support.tickets import MADE, SALT, public

HOSTS = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
JOB = {"id": "4711", "user": "canary_user", "name": "canary_pretrain"}
LOG = "\n".join(
    (
        "INFO canary.trainer: loading CanaryForCausalLM from /lustre/canary/models/canary-70b",
        "dataset canary_corpus_v3 at s3://canary-bucket/shards/canary-000{n}.tar",
        'Traceback (most recent call last):\n  File "/home/canary/canary_train.py", line 88, in canary_step',
        "    loss = canary_model(batch_canary).loss",
        "RuntimeError: CUDA out of memory while running CanaryAttention.forward on canary-node-7.corp.example",
        "wandb: run canary-sweep-{n} of canary-team at https://wandb.canary.example/canary",
        "[rank3]: NCCL WARN Call to ibv_create_qp failed for canary@10.77.66.55",
    )
)
SAID = "our canary_7b finetune of CanaryNet on canary-data hangs on gpu-[001-004], ask canary@canary.example or @canary"
FAULTS = ("G07", "U04", "U01", "U09", "F01", "S01", "O01")


async def diagnosed(fault: str) -> tuple[str, Talk]:
    """Return the document of an incident with this fault, and its thread."""
    stage = build_case_run(
        case_of({"id": fault, "node": "gpu-003"}, nodes=(*HOSTS, "canary-node-7"), job=JOB), controller="canary-controller"
    )
    talk = Talk.over(stage)
    log = "\n".join(LOG.replace("{n}", str(number)) for number in range(40))
    at = stage.clock.now()
    given = (Attachment(name="canary_train.log", text=log),)
    await talk._turn(InboxItem(id="first", kind="mention", incident="inc-1", at=at, user="U1", text=SAID, attachments=given))
    rows = await talk.rows()
    facts = await talk.ports.evidence.get_facts(rows.stored["facts"]) if rows.stored.get("facts") else []
    secrecy = ExportPrivacy(SALT, public(), tuple(list_private_names(stage.inventory)))
    return build_ticket_document(rows, facts, secrecy, MADE).to_canonical_bytes().decode(), talk


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_canary_of_the_workload_leaves(fault: str) -> None:
    sent, talk = await diagnosed(fault)
    assert "canary" not in sent.lower()
    assert "10.77.66.55" not in sent
    assert not [host.address for host in talk.ports.inventory.hosts.values() if host.address != host.name and f'"{host.address}"' in sent]
    document: dict[str, Any] = json.loads(sent)
    assert document["hypotheses"]
    assert len(document["signatures"]) >= 5
    assert {"model", "data", "code"} & {row["kind"] for row in document["signatures"]}
    assert parse_ticket(sent.encode()).document.hosts


async def test_the_test_has_eyes() -> None:
    """Without redaction the canaries show in every part where they are planted."""
    _, talk = await diagnosed("U04")
    rows = await talk.rows()
    facts = await talk.ports.evidence.get_facts(rows.stored["facts"])
    assert "canary" in json.dumps(rows.messages).lower()
    assert any("canary" in f"{fact.line} {fact.value} {dict(fact.attrs)}".lower() for fact in facts)
    assert any("canary" in row.text.lower() for log in rows.logs for row in log.templates)
