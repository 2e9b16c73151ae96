"""The policy file of a site: read as a value, refused whole with every problem and its line, said in words."""

from pathlib import Path

import pytest

from bot.policy.file import BadPolicy, SitePolicy, in_words, load_policy
from bot.policy.shares import Share
from bot.refusal import Refusal
from bot.run.site import site_policy
from bot.settings import load
from bot.terminal.doctor import policy_findings
from tests.support.inventories import inventory

SITE = inventory(
    groups={"acme": {"hosts": "gpu-[017-018]", "tenant": "acme"}, "globex": {"hosts": "gpu-[019-020]", "tenant": "globex"}},
    channels=[{"channel": "C0OPS", "kind": "operators", "approvers": "S0APPROVE"}],
)


def written(folder: Path, text: str) -> Path:
    file = folder / "policy.yaml"
    file.write_text(text)
    return file


def test_a_file_says_what_it_says_and_the_rest_is_as_built_in(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, "shares:\n  every: {incidents: 3}\n  tenants:\n    acme: {turns: 2}\n"), SITE)
    assert policy.shares.of("globex") == Share(incidents=3)
    assert policy.shares.of("acme") == Share(turns=2)


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy) as refused:
        load_policy(written(tmp_path, "shares:\n  tenants:\n    acmee: {}\n    acme: {}\n"), SITE)
    assert len(refused.value.problems) == 1
    assert "policy.yaml:3: no host and no channel of the inventory is of a tenant 'acmee'" in str(refused.value)
    with pytest.raises(BadPolicy, match=r"policy\.yaml:2"):
        load_policy(written(tmp_path, "shares:\n  every: {incidents: 0}\n"))


def test_the_bot_does_not_start_with_a_file_that_it_cannot_use(tmp_path: Path) -> None:
    file = written(tmp_path, "share: {}\n")
    with pytest.raises(Refusal, match="RACKMEDIC_POLICY"):
        site_policy(load(None, {"RACKMEDIC_POLICY": str(file)}))
    assert site_policy(load(None, {})) == SitePolicy()


def test_doctor_says_it_in_words_and_what_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "shares:\n  tenants:\n    acme: {turns: 2}\n")
    settings = load(None, {"RACKMEDIC_POLICY": str(file)})
    assert [row.state for row in policy_findings(settings, SITE)] == ["ok", "ok"]
    assert in_words(load_policy(file))[1] == (
        "acme: 10 incidents at once, 60 mentions an hour, 60 minutes of looking an hour, $2.00 of a model a day, 2 turns to one of others"
    )
    file.write_text("shares: 7\n")
    assert [row.state for row in policy_findings(settings, SITE)] == ["fail"]
