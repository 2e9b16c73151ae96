"""An approval card shows affected jobs and users, the outage, the cost of waiting, and every file to be deleted."""

from dataclasses import replace

import pytest

from bot.cards import text
from bot.remediation.cards import action_text, modals, outcomes, shared_card, side_effects
from bot.remediation.cards import approval_card as approval
from bot.remediation.cards.approval_card import ApprovalCardView
from tests.bot.remediation.cards.test_approval_cards import GROUP, buttons, fits, is_safe, record_of, strings
from tests.support.fakes_ledger import action
from tools.execution.previews import DeletePreview, NodeJobs, OldFile, RunningJob
from tools.ledger.brakes import Brakes
from tools.ledger.states import OPEN_STATES, State
from tools.remedies import REMEDIES, scripts

REBOOT = {"remedy": "reboot", "args": {}, "command": ("systemctl", "reboot"), "devices": (), "risk": "destructive", "limit_seconds": 60}
JOBS = NodeJobs(tuple(RunningJob(str(4711 + n), f"user{n % 3}") for n in range(12)))


def shown_text(card: object) -> str:
    return "\n".join(strings(getattr(card, "blocks", card)))


@pytest.mark.parametrize(
    ("seen", "must", "never"),
    [
        (NodeJobs((RunningJob("4711", "alice"),)), ["Jobs there now: *4711 (alice)*"], ["could not look", "now: *none"]),
        (JOBS, ["4711 (user0), 4712 (user1)", "and 4 more of user0, user1, user2"], ["could not look"]),
        (NodeJobs(), ["Jobs there now: *none*"], ["could not look"]),
        (NodeJobs(why="no route to host"), ["Jobs there: *could not look*, no route to host"], ["Jobs there now"]),
        (NodeJobs((RunningJob("1", "eve"),), "n2: timeout"), ["*could not look*, n2: timeout", "Jobs there now: *1 (eve)*"], []),
    ],
)
def test_jobs_and_users_on_the_node_have_three_answers(seen: NodeJobs, must: list[str], never: list[str]) -> None:
    record = record_of(**REBOOT)
    known = side_effects.build_job_rows(seen)
    for card in (
        approval.render_approval_card(ApprovalCardView(record, GROUP, known=known)),
        shared_card.render_shared_card([ApprovalCardView(record, GROUP, known=known), ApprovalCardView(replace(record), GROUP)], Brakes()),
    ):
        said = shown_text(card)
        assert is_safe(card)
        assert fits(card)
        assert all(words in said for words in must)
        assert not any(words in said for words in never)


@pytest.mark.parametrize("remedy", [row.id for row in REMEDIES.values()])
def test_a_card_that_waits_says_outage_and_cost_of_waiting(remedy: str) -> None:
    row = REMEDIES[remedy]
    said = shown_text(approval.render_approval_card(ApprovalCardView(record_of(remedy=remedy, args=dict.fromkeys(row.args, "1")), GROUP)))
    assert f"*Outage:* {text.strip_markup(row.outage)[:20]}" in said.replace("`", "ˋ")
    assert "*Until it is approved:*" in said


@pytest.mark.parametrize("state", list(State))
def test_outage_and_jobs_are_shown_only_while_the_action_is_open(state: State) -> None:
    record = record_of(**REBOOT, state=state, exit_status=1 if state is State.FAILED else None)
    said = shown_text(approval.render_approval_card(ApprovalCardView(record, GROUP, known=side_effects.build_job_rows(JOBS))))
    assert ("*Outage:*" in said) == ("Jobs there now" in said) == (state in OPEN_STATES)
    assert ("*Until it is approved:*" in said) == (state is State.PENDING)


@pytest.mark.parametrize(
    ("remedy", "limit"), [("reboot", "60 s, then back within 15 min"), ("power_cycle", "60 s, then back within 25 min")]
)
def test_a_restart_is_not_said_to_take_the_time_of_its_command(remedy: str, limit: str) -> None:
    record = record_of(**{**REBOOT, "remedy": remedy})
    assert f"Time limit: {limit}" in shown_text(approval.render_approval_card(ApprovalCardView(record, GROUP)))
    assert f"for {limit} at most" in shown_text(
        approval.render_approval_card(ApprovalCardView(replace(record, state=State.EXECUTING), GROUP))
    )


def test_the_digest_stands_below_the_buttons() -> None:
    kinds = [block["type"] for block in approval.render_approval_card(ApprovalCardView(record_of(), GROUP)).blocks]
    assert kinds[-2:] == ["actions", "context"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("sh", "-c", scripts.POWER_CYCLE, "power-cycle"), "set --; sync; ipmitool chassis power cycle # sh -c, $0=power-cycle"),
        (
            ("sh", "-c", scripts.RESET_CLOCKS, "reset-clocks", "0000:9b:00.0"),
            f"set -- 0000:9b:00.0; {scripts.RESET_CLOCKS} # sh -c, $0=reset-clocks",
        ),
        (("sh", "-c", scripts.CLEANUP, "cleanup", "72", "/tmp"), f"set -- 72 /tmp\n{scripts.CLEANUP} # sh -c, $0=cleanup"),
        (("sh", "-c", "echo", "x", "a b", "$(id)"), "set -- 'a b' '$(id)'; echo # sh -c, $0=x"),
        (("systemctl", "reboot"), "systemctl reboot"),
        (("sh", "-c", "echo"), "sh -c echo"),
        (("sh", "script"), "sh script"),
        (("bash", "-c", "echo", "x"), "bash -c echo x"),
    ],
)
def test_a_script_is_shown_as_what_it_runs(command: tuple[str, ...], shown: str) -> None:
    assert approval.format_command(action(command=command)) == shown


def test_two_commands_never_look_the_same() -> None:
    words = ("a", "b", "a b", "", "$0", "# x", "'a'", "a; b", "set -- a", "set -- a; b", "set --; b", "a # sh -c, $0=b")
    given = ((), ("a",), ("a", "b"), ("a b",), ("",), ("a; b",))
    commands = [("sh", "-c", script, name, *rest) for script in words for name in words for rest in given]
    shown = [
        approval.format_command(action(command=command))
        for command in [*commands, ("sh", "-c", "a"), ("sh", "-c"), ("a",), ("set", "--", "a")]
    ]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize("remedy", [row.id for row in REMEDIES.values()])
def test_people_read_titles_and_no_remedy_ids(remedy: str) -> None:
    row = REMEDIES[remedy]
    record = record_of(remedy=remedy, args=dict.fromkeys(row.args, "1"), undo=row.undo)
    several = [record, replace(record)]
    dialog = buttons(approval.render_approval_card(ApprovalCardView(record, GROUP)))[approval.APPROVE_ACTION_ID]["confirm"]
    cards = [
        dialog["title"]["text"],
        outcomes.render_reminder(ApprovalCardView(record, GROUP)),
        outcomes.render_shared_reminder([ApprovalCardView(one, GROUP) for one in several]),
        shared_card.render_shared_card([ApprovalCardView(one, GROUP) for one in several], Brakes()),
        approval.render_approval_card(ApprovalCardView(record, GROUP)),
    ]
    for card in cards:
        said = card if isinstance(card, str) else f"{card.text}\n{shown_text(card)}"
        assert not [name for name in REMEDIES if "_" in name and name in said]
    assert action_text.get_action_title(record.action).split()[0] in dialog["title"]["text"]


def files_of(count: int, total: int = 0, *, name: str = "core", used: bool | None = False) -> DeletePreview:
    return DeletePreview(total or count, count << 20, tuple(OldFile(f"/tmp/{name}.{n}", 1 << 20, "root", 9000, used) for n in range(count)))


@pytest.mark.parametrize(("count", "total"), [(1, 0), (4, 0), (5, 0), (8, 0), (9, 0), (100, 0), (100, 3214)])
def test_every_file_is_on_the_card_or_in_its_dialog(count: int, total: int) -> None:
    record = record_of(remedy="cleanup", args={"hours": "72"})
    known = side_effects.build_file_rows(files_of(count, total))
    card, dialog = (
        approval.render_approval_card(ApprovalCardView(record, GROUP, known=known)),
        modals.render_all_actions([record], {record.approval: known}),
    )
    said, paths = shown_text(card), [f"/tmp/core.{n}" for n in range(count)]
    assert f"{total or count:,} file" in said
    assert fits(card)
    if count <= side_effects.MAX_FILES_ON_CARD and not total:
        assert all(f"`{path}`" in said for path in paths)
        assert approval.SHOW_ALL_ACTION_ID not in buttons(card)
    else:
        assert approval.SHOW_ALL_ACTION_ID in buttons(card)
        assert " more in Show all" in said
        read = shown_text([dialog["blocks"]])
        assert all(f"{path}  1.0 MiB" in read for path in paths)
    assert ("3,114 smaller files" in said) == bool(total)


@pytest.mark.parametrize(
    ("path", "warned"),
    [
        ("/tmp/ckpt-0.pt.tmp", True),
        ("/tmp/run/checkpoint_1200/model.safetensors.tmp", True),
        ("/tmp/global_step400/mp_rank_00.pt.partial", True),
        ("/tmp/step_400.tmp", True),
        ("/tmp/.tmp-ckpt-12/x", True),
        ("/tmp/ckpt-0.pt", False),
        ("/tmp/pip-build.tmp", False),
        ("/var/crash/core.1234", False),
    ],
)
def test_an_unfinished_checkpoint_is_named_as_such(path: str, warned: bool) -> None:
    known = side_effects.build_file_rows(DeletePreview(1, 1, (OldFile(path, 1, "root", 9000, open=False),)))
    said = shown_text(
        approval.render_approval_card(ApprovalCardView(record_of(remedy="cleanup", args={"hours": "72"}), GROUP, known=known))
    )
    assert ("unfinished checkpoint" in said) == warned


@pytest.mark.parametrize(
    ("used", "must", "never"),
    [(True, "in use by a process", "could not look"), (False, "", "in use"), (None, "could not look", "in use by")],
)
def test_a_file_in_use_is_shown_and_so_is_an_unobserved_one(used: bool | None, must: str, never: str) -> None:
    known = side_effects.build_file_rows(files_of(2, used=used))
    said = shown_text(
        approval.render_approval_card(ApprovalCardView(record_of(remedy="cleanup", args={"hours": "72"}), GROUP, known=known))
    )
    assert must in said
    assert never not in said
