"""A site's policy file: parsed values, all problems with their lines, and its summary in words."""

from pathlib import Path

import pytest

from bot.app.site_files import load_site_policy
from bot.cli.doctor.policy import check_people_sources, check_policy
from bot.policy.policy_file import BadPolicy, SitePolicy, format_policy, load_policy
from bot.policy.quotas import Quota
from bot.refusal import Refusal
from bot.settings import load_settings
from bot.slack.people import SlackAnswerMissing
from tests.support.clock import SetClock
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
    assert policy.shares.get_quota("globex") == Quota(incidents=3)
    assert policy.shares.get_quota("acme") == Quota(turns=2)


def test_every_problem_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy) as refused:
        load_policy(written(tmp_path, "shares:\n  tenants:\n    acmee: {}\n    acme: {}\n"), SITE)
    assert len(refused.value.problems) == 1
    assert "policy.yaml:3: no host and no channel of the inventory is of a tenant 'acmee'" in str(refused.value)
    with pytest.raises(BadPolicy, match=r"policy\.yaml:2"):
        load_policy(written(tmp_path, "shares:\n  every: {incidents: 0}\n"))


@pytest.mark.parametrize("field", ["look_seconds_per_hour", "model_usd_per_day"])
@pytest.mark.parametrize("where", ["every: {{{0}: 7}}", "tenants: {{acme: {{{0}: 7}}}}"])
def test_a_removed_limit_is_refused_by_name_and_says_what_to_do(tmp_path: Path, where: str, field: str) -> None:
    file = written(tmp_path, f"shares:\n  {where.format(field)}\n")
    with pytest.raises(BadPolicy, match=rf"policy\.yaml:2: .*{field} was removed: bound .*incidents"):
        load_policy(file, SITE)


def test_the_bot_does_not_start_with_a_file_that_it_cannot_use(tmp_path: Path) -> None:
    file = written(tmp_path, "share: {}\n")
    with pytest.raises(Refusal, match="RACKMEDIC_POLICY"):
        load_site_policy(load_settings(None, {"RACKMEDIC_POLICY": str(file)}))
    assert load_site_policy(load_settings(None, {})) == SitePolicy()


async def test_doctor_says_it_in_words_and_what_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "shares:\n  tenants:\n    acme: {turns: 2}\n")
    settings = load_settings(None, {"RACKMEDIC_POLICY": str(file)})
    assert [row.state for row in await check_policy(settings, SITE)] == ["ok", "ok", "off"]
    assert format_policy(load_policy(file))[1] == ("acme: 10 incidents at once, 60 mentions an hour, 2 turns to one of others")
    file.write_text("shares: 7\n")
    assert [row.state for row in await check_policy(settings, SITE)] == ["fail"]


class SomeGroups:
    """Slack's user groups: one with people, one without, and no others."""

    async def list_members(self, group: str) -> frozenset[str]:
        if group not in ("S1", "S2"):
            raise SlackAnswerMissing
        return frozenset({"U1", "U2"}) if group == "S1" else frozenset()


async def test_doctor_tells_which_group_and_which_schedule_cannot_be_resolved(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "roles: {admin: {groups: [S1]}}\n"
        "approvers:\n"
        "  sets: {a: {groups: [S2]}, b: {groups: [S3]}, c: {on_call: [rota, away]}}\n"
        f"  on_call: {{rota: {{user_group: S1}}, away: {{file: {tmp_path}/gone.json}}}}\n",
    )
    found = await check_people_sources(load_policy(file), SomeGroups(), SetClock())
    assert [(row.state, row.says.partition(":")[0]) for row in found] == [
        ("ok", "the user group S1"),
        ("warn", "the user group S2"),
        ("fail", "the user group S3"),
        ("ok", "on call by rota"),
        ("fail", "on call by away"),
    ]
