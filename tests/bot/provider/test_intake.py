"""The ticket intake accepts a signed ticket in time once; forged, replayed, late or large ones get an uninformative
refusal.
"""

import base64
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from fakeredis import FakeAsyncRedis

from bot import inbound
from bot.provider.intake import MAX_BODY_BYTES, MAX_TICKETS_PER_HOUR
from bot.provider.link import LinkRefused, LinkUnavailable, _check_response
from bot.provider.ticket_importer import TicketImporter
from bot.provider.wire_messages import BadMessage, build_states_message, build_ticket_message, parse_message
from graph.state import InboxItem, Origin, TenantThread
from tests.support.clock import T0, SetClock
from tests.support.fakes_bot import OPS
from tests.support.intakes import OURS, THEIRS, Provider, provider
from tests.support.tickets import MADE, SAID

BODY = build_ticket_message(SAID.to_canonical_bytes(), MADE)
ID = "msg_0123456789"


@pytest.fixture
async def theirs() -> AsyncIterator[Provider]:
    async with FakeAsyncRedis() as redis, provider(redis, SetClock()) as made:
        yield made


def headers(theirs: Provider, body: bytes = BODY, *, id_: str = ID, key: bytes = OURS, off: timedelta = timedelta()) -> dict[str, str]:
    return inbound.build_signed_headers(key, id_, theirs.clock.now() + off, body)


def signature(key: bytes, id_: str, timestamp: str, body: bytes) -> str:
    """Sign by the specification, without the library."""
    return "v1," + base64.b64encode(hmac.digest(key, f"{id_}.{timestamp}.".encode() + body, "sha256")).decode()


def test_the_signature_is_that_of_standard_webhooks() -> None:
    key, sent = inbound.parse_webhook_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), datetime.fromtimestamp(1614265330, UTC)
    made = inbound.build_signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", sent, b'{"test": 2432232314}')
    assert (made[inbound.TIMESTAMP_HEADER], made[inbound.SIGNATURE_HEADER]) == (
        "1614265330",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    )
    elsewhere = sent.astimezone(timezone(timedelta(hours=-7)))
    assert inbound.build_signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", elsewhere, b'{"test": 2432232314}') == made


def test_one_of_several_signatures_and_of_several_keys_is_enough() -> None:
    made = inbound.build_signed_headers(OURS, ID, T0, BODY)
    several = {**made, inbound.SIGNATURE_HEADER: f"v2,x v1,x {made[inbound.SIGNATURE_HEADER]}"}
    assert inbound.verify_message([THEIRS, OURS], several, BODY, T0).id == ID
    for keys in ([THEIRS], []):
        with pytest.raises(inbound.Unsigned, match="no signature"):
            inbound.verify_message(keys, several, BODY, T0)


@pytest.mark.parametrize("text", ["", "secret", "whsec_", "whsec_short", "whsec_" + "A" * 200, "whsec_!!!!"])
def test_a_key_that_is_none_is_refused_with_how_to_make_one(text: str) -> None:
    with pytest.raises(ValueError, match="openssl rand"):
        inbound.parse_webhook_key(text)


@pytest.mark.parametrize("timestamp", ["9" * 12, "9" * 11, "٣" * 10, "", "1.5", f"0{T0.timestamp():.0f}", "0"])
def test_a_malformed_timestamp_is_no_valid_signature(timestamp: str) -> None:
    signs = f"{signature(OURS, ID, timestamp, b'')} {signature(OURS, ID, timestamp.lstrip('0'), b'')}"
    with pytest.raises(inbound.Unsigned):
        inbound.verify_message(
            [OURS], {inbound.ID_HEADER: ID, inbound.TIMESTAMP_HEADER: timestamp, inbound.SIGNATURE_HEADER: signs}, b"", T0
        )


def test_a_body_that_is_not_utf_8_is_no_valid_signature() -> None:
    timestamp, body = f"{T0.timestamp():.0f}", b"\xff\xfe"
    signs = signature(OURS, ID, timestamp, body)
    with pytest.raises(inbound.Unsigned, match="UTF-8"):
        inbound.verify_message(
            [OURS], {inbound.ID_HEADER: ID, inbound.TIMESTAMP_HEADER: timestamp, inbound.SIGNATURE_HEADER: signs}, body, T0
        )


@pytest.mark.parametrize("signs", ["v1,\udcff", "v1,é", "v1,", "v1", " " * 900, "v1,x " * 200])
def test_a_malformed_signature_is_refused(signs: str) -> None:
    with pytest.raises(inbound.Unsigned):
        inbound.verify_message([OURS], {**inbound.build_signed_headers(OURS, ID, T0, b""), inbound.SIGNATURE_HEADER: signs}, b"", T0)


async def test_a_ticket_is_taken_in_once_however_often_it_is_sent(theirs: Provider) -> None:
    first = await theirs.link().send_ticket(ID, BODY)
    assert isinstance(theirs.clock, SetClock)
    theirs.clock.go(seconds=5)
    again = await theirs.link().send_ticket(ID, BODY)
    assert (first.ticket, first.state) == (again.ticket, "received")
    assert [item.kind for item in await theirs.inbox.list_waiting(first.ticket)] == ["mention"]
    assert theirs.woken == [first.ticket]


async def test_what_is_forged_replayed_late_or_a_strangers_is_not_taken_in(theirs: Provider) -> None:
    good = headers(theirs)
    assert await theirs.post(BODY + b" ", good) == 401
    assert await theirs.post(BODY, headers(theirs, key=b"x" * 32)) == 401
    assert await theirs.post(BODY, {**good, inbound.ID_HEADER: "msg_another_one"}) == 401
    assert await theirs.post(BODY, {**good, inbound.SIGNATURE_HEADER: "v1,"}) == 401
    assert await theirs.post(BODY, {}) == 401
    assert await theirs.post(BODY, headers(theirs, off=-timedelta(minutes=6))) == 401
    assert await theirs.post(BODY, headers(theirs, off=timedelta(minutes=6))) == 401
    assert await theirs.post(BODY, good, tenant="globex") == 401
    assert await theirs.post(BODY, good, tenant="nobody") == 401
    assert await theirs.inbox.list_open_incidents() == []
    assert await theirs.post(BODY, good) == 200
    assert await theirs.post(BODY, good) == 409
    assert len(await theirs.inbox.list_open_incidents()) == 1


async def test_what_is_too_large_is_not_read(theirs: Provider) -> None:
    large = b'{"type":"rackmedic.ticket.sent","data":{"x":"' + b"x" * MAX_BODY_BYTES + b'"}}'
    assert await theirs.post(large, headers(theirs, large)) == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no json", 400),
        (b'{"type":"rackmedic.something","data":{}}', 400),
        (b'{"type":"rackmedic.ticket.sent","data":{"format":"rackmedic-ticket/2"}}', 422),
        (b'{"type":"rackmedic.states.asked","data":{"tickets":["../x"]}}', 400),
        (json.dumps({"type": "rackmedic.states.asked", "data": {"tickets": ["inc-1"] * 51}}).encode(), 400),
        (b'{"type":"rackmedic.states.asked","data":{"tickets":["inc-1"],"after":{"inc-1":' + b"9" * 4000 + b"}}}", 400),
        (b'{"type":"rackmedic.states.asked","data":{"tickets":["inc-1"],"after":{"inc-1":' + b"9" * 9000 + b"}}}", 400),
        (b'{"type":"rackmedic.states.asked","data":{"tickets":["inc-1"],"after":{"inc-1":1e999}}}', 400),
        (b'{"type":"rackmedic.ticket.sent","data":{"x":' + b"9" * 9000 + b"}}", 400),
        (b'{"type":"rackmedic.ticket.sent","data":{"x":NaN,"y":1e999,"z":-Infinity}}', 422),
        (b'{"type":"rackmedic.ticket.sent","data":{"x":' + b"[" * 9000 + b"]" * 9000 + b"}}", 400),
        (b'{"type":"rackmedic.ticket.sent","data":{"x":"\\ud800"}}', 400),
        (b'{"type":"rackmedic.ticket.sent","data":{},"data":{"type":"x"}}', 422),
        (b"", 400),
    ],
)
async def test_what_cannot_be_read_is_refused(theirs: Provider, body: bytes, status: int) -> None:
    assert await theirs.post(body, headers(theirs, body)) == status


async def test_a_refusal_for_good_is_told_from_one_for_now(theirs: Provider) -> None:
    with pytest.raises(LinkRefused, match="version 2 is not known"):
        await theirs.link().send_ticket(ID, b'{"type":"rackmedic.ticket.sent","data":{"format":"rackmedic-ticket/2"}}')
    with pytest.raises(LinkRefused, match="401"):
        await theirs.link(key=b"x" * 32).send_ticket(ID, BODY)
    theirs.url = "http://127.0.0.1:9"
    with pytest.raises(LinkUnavailable, match="cannot be reached"):
        await theirs.link().send_ticket(ID, BODY)


def test_what_the_intake_says_is_cleaned_before_it_is_kept() -> None:
    with pytest.raises(LinkRefused) as no:
        _check_response(422, "", b'{"error": "password=hunter2hunter2 is wrong"}')
    assert "hunter2" not in str(no.value)


async def test_more_tickets_than_a_customer_may_send_in_an_hour_wait(theirs: Provider) -> None:
    for number in range(MAX_TICKETS_PER_HOUR):
        body = build_ticket_message(SAID.model_copy(update={"incident": f"inc-{number}"}).to_canonical_bytes(), MADE)
        assert await theirs.post(body, headers(theirs, body, id_=f"msg_number_{number}")) == 200
    with pytest.raises(LinkUnavailable) as away:
        await theirs.link().send_ticket(ID, BODY)
    assert away.value.after > 0


async def test_a_state_is_told_of_ones_own_tickets_alone(theirs: Provider) -> None:
    ours = (await theirs.link().send_ticket(ID, BODY)).ticket
    arrivals = TicketImporter(theirs.inbox, theirs.intake.arrivals.book, theirs.intake.arrivals.inventory, theirs.clock)
    globex = (await arrivals.import_ticket("globex", SAID)).incident
    thread = TenantThread(team="T", channel="C", thread_ts="1.0")
    origin = Origin(kind="slack", channel=OPS, tenant="acme", customer=thread)
    slack = await theirs.inbox.open_or_join(
        origin, "k", lambda incident: InboxItem(id="k", kind="mention", incident=incident, at=theirs.clock.now())
    )
    asked = dict.fromkeys((ours, globex, slack.incident, "inc-none"), 0)
    assert (await theirs.link().fetch_states(asked)).states == {ours: "received"}


async def test_the_states_are_those_of_the_customers_card(theirs: Provider) -> None:
    ours = (await theirs.link().send_ticket(ID, BODY)).ticket
    theirs.states[ours] = {"report": {"item": "x", "outcome": "handed_off"}, "ticket": {"state": "taken"}, "lifecycle": "handed_off"}
    assert (await theirs.link().fetch_states({ours: 0})).states == {ours: "taken"}
    theirs.states[ours] = {**theirs.states[ours], "lifecycle": "watching"}
    assert (await theirs.link().fetch_states({ours: 0})).states == {ours: "proved"}


def test_a_message_names_its_type() -> None:
    assert parse_message(BODY)[0] == "rackmedic.ticket.sent"
    assert parse_message(build_states_message({"inc-1": 2}, MADE)) == (
        "rackmedic.states.asked",
        {"tickets": ["inc-1"], "after": {"inc-1": 2}},
    )
    with pytest.raises(BadMessage):
        parse_message(b'{"data":{}}')
