"""A ticket document for the provider holds the evidence, but no workload name, other host or secret."""

import contextlib
import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.incident_view import IncidentView
from graph.state import RemediationOutcome
from graph.ticket_export.document import DOCUMENT_FORMAT, MAX_DOCUMENT_BYTES, AttemptOutcome, FactStatus
from graph.ticket_export.document_builder import ExportPrivacy, build_ticket_document
from graph.ticket_export.pseudonymizer import Pseudonymizer
from graph.ticket_export.received_ticket import BadTicket, build_item_data, parse_ticket
from tests.support.tickets import MADE, SALT, known, public, ticket
from tools.fact import Fact, Status
from tools.inventory.host_ranges import expand_host_range

HOSTS = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")


def fact(**row: Any) -> Fact:
    return Fact(**{"check": "joblog", "key": "job.error", "value": "cuda_oom", "host": "gpu-003", "time": MADE, **row})


def test_a_ticket_holds_the_investigation_and_is_read_as_it_was_written() -> None:
    made = ticket()
    assert (made.format, made.incident, made.job, made.hosts) == (DOCUMENT_FORMAT, "inc-1", "4711", ("gpu-[001-004]",))
    best = made.hypotheses[0]
    assert (best.label, best.verdict, best.devices) == ("GPU.BUS.Fallen_Off_Bus", "confirmed", ("gpu-003/gpu5",))
    assert {"rejected"} <= {row.verdict for row in made.hypotheses}
    assert ("gpu-003", "kernel.xid", 79) in {(row.host, row.key, row.value) for row in made.facts}
    assert ("driver.version", ("gpu-[001-004]",)) in {(row.what, row.hosts) for row in made.versions}
    assert made.said[0].text == "job 4711 hangs on gpu-[001-004]"
    assert len(made.to_canonical_bytes()) < MAX_DOCUMENT_BYTES / 4
    assert parse_ticket(made.to_canonical_bytes()).document == made


def test_words_of_everybody_stay_readable() -> None:
    said = "training hangs since yesterday after we changed the image, watchdog caught collective operation timeout: NCCL WARN on gpu-003"
    assert ticket(words=said).said[0].text == said


@pytest.mark.parametrize(
    "leaks",
    [
        "/lustre/acme/projects/moonshot/train.py", "moonshot-70b-instruct", "acme/moonshot", "s3://acme-corpus/shard-0001.tar", "priya@acme.example",
        "10.20.30.41", "moonshot_v2.safetensors", "MoonshotDecoderLayer", "gpu-777", "bastion-7.dc.example", "fe80::1ff:fe23:4567:890a", "日本語モデル",
    ],
)  # fmt: skip
def test_no_name_of_the_workload_and_no_address_leaves(leaks: str) -> None:
    rows = (
        fact(line=f"RuntimeError in {leaks}: out of memory", attrs={"detail": f"loading {leaks}", "name": leaks}),
        fact(key="env.WANDB_PROJECT", check="env", value=leaks),
        fact(key="site.loader", check=leaks[:20], value=leaks, attrs={"wrong": True}),
    )
    made = ticket(words=f"{leaks} hangs on gpu-003", facts=rows)
    assert leaks not in (sent := json.dumps(json.loads(made.to_canonical_bytes()), ensure_ascii=False))
    assert not [part for part in leaks.replace("/", ".").split(".") if len(part) > 7 and part in sent]
    assert made.signatures


def test_a_name_that_was_learnt_is_signed_though_it_is_a_word_of_everybody() -> None:
    learnt = fact(key="container.status", check="docker", value="running", attrs={"name": "training", "image": "image"})
    made = ticket(words="training hangs", facts=(learnt,))
    away = Pseudonymizer(SALT, public(), HOSTS, {"training"})
    assert made.said[0].text == f"{away.sign_name('training')} hangs"


def test_the_same_name_has_the_same_signature_and_another_salt_another() -> None:
    one, two = Pseudonymizer(SALT, public()), Pseudonymizer(b"t" * 32, public())
    assert one.pseudonymize_text("Moonshot-70B") == one.pseudonymize_text("moonshot-70b") != two.pseudonymize_text("moonshot-70b")
    assert one.find_signatures(["moonshot-70b"]) == {one.sign_name("moonshot-70b"): "model"}


def test_a_secret_leaves_neither_as_it_is_nor_signed() -> None:
    made = ticket(words="export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 and it hangs")
    assert "hf_abc" not in made.to_canonical_bytes().decode()
    assert "redacted" in made.said[0].text


NAMES = st.text("abcdefghijklmnopqrstuvwxyz", min_size=6, max_size=14).filter(lambda word: word not in public())


@settings(max_examples=150, deadline=None)
@given(
    name=NAMES,
    frame=st.sampled_from(
        ["{}", "/data/{}/x", "{}-7b", "x_{}.py", "--model={}", "({})", "{}:", "a.{}.b", "{}@x", "{}[1]", "“{}”", "gpu-003/{}", "{}\n"]
    ),
)
def test_no_name_anywhere_in_a_text_is_exported(name: str, frame: str) -> None:
    away = Pseudonymizer(SALT, public(), HOSTS)
    said = f"NCCL WARN before {frame.format(name)} after gpu-003"
    made = away.pseudonymize_text(said)
    assert name not in made.lower()
    assert "NCCL WARN before" in made
    assert away.pseudonymize_text(made) == away.pseudonymize_text(away.pseudonymize_text(made))


def written(**changed: Any) -> bytes:
    plain = {"format": DOCUMENT_FORMAT, "incident": "inc-1", "made": "2026-05-20T04:00:00Z"}
    return json.dumps({**plain, **changed}).encode()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"\xff", "UTF-8"),
        (b"{", "no JSON"),
        (b"[]", "mapping"),
        (b"[" * 100_000, "no JSON"),
        (b'{"format":"rackmedic-ticket/1","incident":NaN}', "NaN"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "at most"),
        (written(format="rackmedic-ticket/2"), "format: version 2 is not known"),
        (written(format="something"), "format"),
        (written(incident="../../etc"), "incident"),
        (written(made="yesterday"), "made"),
        (written(hosts="gpu-001"), "hosts must be a list"),
        (written(hosts=["x" * 254]), "hosts"),
        (written(left_out=1 << 70), "left_out"),
        (written(facts=[{"check": "smi", "key": "gpu.count", "value": {"a": 1}}]), "value"),
        (written(hypotheses=[{"label": "GPU.X.Y", "verdict": "sure"}]), "verdict"),
        (written(facts=[{"check": "smi"}]), "key is missing"),
        (written(facts=[{"check": "smi", "key": "k"}] * 121), "facts"),
        (written(x={"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}}}}}}), "deeper"),
    ],
)
def test_what_is_no_ticket_is_refused_by_the_name_of_the_field(raw: bytes, says: str) -> None:
    with pytest.raises(BadTicket, match=says):
        parse_ticket(raw)


def test_fields_of_a_newer_writer_are_passed_over_and_named() -> None:
    raw = written(colour="red", facts=[{"check": "smi", "key": "gpu.count", "value": 7, "mood": 1}])
    read = parse_ticket(raw)
    assert read.ignored == ("colour", "facts.mood")
    assert read.document.facts[0].value == 7


def test_what_is_read_holds_no_secret() -> None:
    read = parse_ticket(written(said=[{"text": "password=hunter2hunter2 hangs"}]))
    assert "hunter2" not in read.document.said[0].text


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
)


@settings(max_examples=100, deadline=None)
@given(ANYTHING)
def test_no_document_of_a_stranger_breaks_the_reader(value: Any) -> None:
    for raw in (json.dumps(value).encode(), written(facts=value), written(hypotheses=[value]), written(hosts=value, logs=value)):
        with contextlib.suppress(BadTicket):
            assert parse_ticket(raw).document.format == DOCUMENT_FORMAT


def test_the_documents_lists_are_those_of_the_product() -> None:
    assert set(get_args(FactStatus)) == {status.value for status in Status}
    assert set(get_args(AttemptOutcome)) == set(get_args(RemediationOutcome))


def test_a_thousand_hosts_and_more_facts_than_fit_are_a_document_that_is_read() -> None:
    rows, _ = known()
    hosts = tuple(f"very-long-name-of-a-hall-{hall}-node-{number:04}.site.example" for hall in range(4) for number in range(0, 500, 2))
    brief = {**rows.stored["brief"], "hosts": list(hosts)}
    many = [
        fact(
            host=host,
            line=f"CUDA error: out of memory {'again ' * 60}",
            value=f"cuda_oom_{n}",
            attrs={f"a{k}": "error " * 30 for k in range(16)},
        )
        for n, host in enumerate(hosts[:200])
    ]
    made = build_ticket_document(IncidentView({**rows.stored, "brief": brief}), many, ExportPrivacy(SALT, public()), MADE)
    raw = made.to_canonical_bytes()
    assert len(raw) < MAX_DOCUMENT_BYTES
    assert made.left_out > 0
    assert parse_ticket(raw).document == made
    assert tuple(name for part in made.hosts for name in expand_host_range(part)) == hosts


def test_hosts_that_are_no_ranges_name_no_host() -> None:
    document = parse_ticket(written(hosts=["gpu-[9-1]"])).document
    assert build_item_data(document)["hosts"] == ""
    assert build_item_data(parse_ticket(written(hosts=["gpu-[1-9999]", "b[1-9999]"])).document)["hosts"] == ""
    with pytest.raises(BadTicket, match="hosts"):
        parse_ticket(written(hosts=["-rf /"]))
