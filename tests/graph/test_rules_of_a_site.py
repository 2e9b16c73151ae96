"""A site's log rule may prove a job's cause but never a host's, because tenants write the log."""

from dataclasses import replace
from pathlib import Path

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.tools.test_site_rules import LOST, rules
from tools.checks import CHECKS
from tools.checks.site.rule_matching import add_rules

LEAF = """category: {category}
branches: {{SITE: What only we have}}
leaves:
  SITE.Lease_Lost:
    title: The lease was lost
    description: The fabric daemon lost its lease.
    scope: {scope}
    owner: {owner}
    symptoms: [py_exception, killed]
    words: [lease lost]
    share: 0.005
    share_from: our tickets of the last year
    evidence:
      - {{id: lost, key: site.log.fabric_lease_lost, when: 'value != ""', weight: 9, decisive: true, says: "the lease was lost"}}
    checks: [joblog]
    remedies: [report_user]
    customer_words: The job lost its lease.
    next_step: Ask for a new lease.
    sources: [our runbook]
"""


def concluded(folder: Path, category: str, scope: str, owner: str) -> Assessment:
    for name in ("taxonomy", "rules"):
        (folder / name).mkdir()
    (folder / "taxonomy" / "ours.yaml").write_text(LEAF.format(category=category, scope=scope, owner=owner))
    checks = add_rules(CHECKS, rules(folder / "rules", LOST))
    log = "[rank0]: step 1 loss 2.0\n[rank3]: fabd: lease 4711 lost on n5\n"
    facts = [replace(fact, host="n1", time=T0) for fact in checks["joblog"].parse_output(log)]
    return assess_facts(facts, ReferenceData(load_taxonomy(folder / "taxonomy"), checks), ("n1", "n2"), None, T0)


def test_it_decides_a_cause_of_the_job(tmp_path: Path) -> None:
    now = concluded(tmp_path, "USER", "job", "customer")
    assert [row.label for row in now.list_root_causes()] == ["USER.SITE.Lease_Lost"]
    assert [fact.attrs["wrong"] for fact in now.abnormal_facts if fact.key.startswith("site.log.")] == ["the fabric daemon lost its lease"]


@pytest.mark.parametrize("category", ["GPU", "INTERCONNECT", "SYSTEM_SOFTWARE", "OTHER"])
def test_it_accuses_no_machine(tmp_path: Path, category: str) -> None:
    now = concluded(tmp_path, category, "node", "provider")
    assert now.list_root_causes() == ()
