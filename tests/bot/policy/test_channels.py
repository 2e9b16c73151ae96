"""Only operators' channels are served, and only for members of our workspace."""

import pytest

from bot.policy import channels as policy
from bot.policy.channels import ChannelNotServed, NotAllowed, SlackPlace
from tools.inventory.inventory import ChannelRow

BOUND = policy.build_channel_bindings(
    (
        ChannelRow(channel="C0OPS", kind="operators"),
        ChannelRow(channel="C0ACME", kind="tenant", tenant="acme", internal="C0OPS"),
        ChannelRow(channel="D0DM", kind="operators"),
    )
)


def test_an_operators_channel_is_served() -> None:
    assert policy.require_operator_channel(SlackPlace("T1", "C0OPS", "channel"), BOUND).channel == "C0OPS"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (SlackPlace("T1", "C0ACME", "channel"), "tenant"),
        (SlackPlace("T1", "C0ELSE", "channel"), "unbound"),
        (SlackPlace("T1", "C0OPS", "channel", shared=True), "shared"),
        (SlackPlace("T1", "C0ACME", "channel", shared=True), "shared"),
        (SlackPlace("T1", "C0OPS", "im"), "im"),
        (SlackPlace("T1", "C0OPS", "mpim"), "im"),
        (SlackPlace("T1", "D0DM"), "im"),
    ],
)
def test_every_other_place_is_refused_in_words_that_say_what_to_do(place: SlackPlace, why: str) -> None:
    with pytest.raises(ChannelNotServed, match=r"[Mm]ention me") as refused:
        policy.require_operator_channel(place, BOUND)
    assert refused.value.why == why
    assert refused.value.instead == (("C0OPS",) if why in ("im", "unbound") else ())


def test_a_refusal_tells_strangers_nothing_of_what_there_is() -> None:
    inside = ("inventory", "host", "group", "tenant", "customer", "operators", "kind:", "channels:", "acme")
    for words in (*policy.REFUSAL_TEXTS.values(), policy.NOT_A_MEMBER_TEXT, policy.NOT_FULL_MEMBER_TEXT):
        assert not [word for word in inside if word in words.lower()]


ROWS = {
    "ops": ChannelRow(channel="C0OPS"),
    "train": ChannelRow(channel="C0TRAIN", groups=("train",)),
    "infer": ChannelRow(channel="C0INFER", groups=("infer",)),
    "acme": ChannelRow(channel="C0ACME", kind="tenant", tenant="acme"),
    "acme too": ChannelRow(channel="C0ACME2", kind="tenant", tenant="acme"),
    "globex": ChannelRow(channel="C0GLOB", kind="tenant", tenant="globex"),
    "nobody": ChannelRow(channel="C0NONE", kind="tenant"),
    "nobody too": ChannelRow(channel="C0NONE2", kind="tenant"),
}


def test_a_thread_is_joined_and_linked_to_only_where_its_hosts_may_be_spoken_of() -> None:
    allowed = {
        (reader, other) for reader in ROWS for other in ROWS if reader != other and policy.can_read_channel(ROWS[reader], ROWS[other])
    }
    assert allowed == {("ops", "train"), ("ops", "infer"), ("acme", "acme too"), ("acme too", "acme")}
    assert all(policy.can_read_channel(row, row) for row in ROWS.values())


FLAGS = ("deleted", "is_bot", "is_restricted", "is_ultra_restricted")
USER = {"id": "U1", "team_id": "T1", "profile": {"display_name": "olga"}, **dict.fromkeys(FLAGS, False)}


def test_a_full_member_is_a_colleague() -> None:
    policy.require_colleague(policy.parse_person(USER), "T1")


@pytest.mark.parametrize(
    "user",
    [
        {},
        {**USER, "team_id": "T2"},
        {**USER, "team_id": ""},
        {**USER, "id": "USLACKBOT"},
        *({**USER, doubt: True} for doubt in (*FLAGS, "is_stranger", "is_workflow_bot")),
        *({name: value for name, value in USER.items() if name != flag} for flag in FLAGS),
        *({**USER, flag: None} for flag in FLAGS),
    ],
)
def test_other_people_are_no_colleagues(user: dict[str, object]) -> None:
    with pytest.raises(NotAllowed):
        policy.require_colleague(policy.parse_person(user), "T1")


def test_a_person_is_called_by_the_name_they_chose() -> None:
    assert policy.parse_person(USER).name == "olga"
    assert policy.parse_person({"id": "U2", "real_name": "Olga M"}).name == "Olga M"
    assert policy.parse_person({"id": "U3"}).name == "U3"
