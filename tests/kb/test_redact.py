"""Redaction removes secrets, keeps evidence, and is idempotent."""

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.redact import BLOCK_CHARS, redact, show_invisible
from kb.secrets.line_secrets import MAYBE_ASSIGNED_PATTERN, SECRET_NAME_NEEDLES, SIGN_FOLLOWS_PATTERN

pytestmark = pytest.mark.slow


HEX40 = "0123456789abcdef0123456789abcdef01234567"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + ("MIIEpAIBAAKCAQEAtV0Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9Y9\n" * 3)
    + "abc=\n-----END RSA PRIVATE KEY-----"
)

SECRETS = [
    ("xoxb-123456789012-abcdefGHIJKL", "xoxb"),
    ("xapp-1-A012345-6789-abcdef", "A012345"),
    ("key AKIAIOSFODNN7EXAMPLE used", "AKIA"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr"),
    ("git clone https://ghp_0123456789abcdefghijABCDEF@github.com/x", "ghp_"),
    ("using hf_abcdefghijklmnopqrstuvwxyz", "hf_"),
    ("OPENAI sk-proj-abcdef0123456789abcdef", "sk-proj"),
    (f"cookie {JWT}", "eyJ"),
    ("Authorization: Bearer abc.def-ghi", "abc.def"),
    ("curl -H 'authorization: Basic dXNlcjpwYXNz'", "dXNlc"),
    ('{"Authorization": "Bearer abc123"}', "abc123"),
    (f"wandb: logged in with {HEX40}", HEX40),
    (f"WANDB_API_KEY={HEX40}", HEX40),
    ("redis://bot:pa55word@10.0.0.1:6379/0", "pa55word"),
    ("https://x.blob.core.windows.net/logs?sv=2022-11-02&sp=r&sig=abcDEF123%2Bxyz", "abcDEF123"),
    ("password=hunter2", "hunter2"),
    ('password: "hunter two"', "hunter"),
    ('{"password": "hun\\"ter2", "user": "x"}', "ter2"),
    ('{\\"password\\": \\"hunter2\\"}', "hunter2"),
    ("token = abcdef123456", "abcdef"),
    ("api_key=abcdef123456&x=1", "abcdef"),
    ("train.py --api-key abcdef123456 --lr 1", "abcdef"),
    ("MY_SERVICE_TOKEN=abcdef", "abcdef"),
    ("DB_PASS=abcdef", "abcdef"),
    ("    client-key-data: LS0tLS1CRUdJTiBSU0E=", "LS0t"),
    ('{"auths": {"nvcr.io": {"auth": "JG9hdXRodG9rZW46bnZhcGk="}}}', "JG9h"),
    ("https://hooks.slack.com/services/T000/B000/XXXXYYYYZZZZ", "XXXXYYYY"),
    (PEM, "MIIE"),
    (json.dumps(PEM), "MIIE"),
    (f'{{"MESSAGE":{list(b"password=hunter2 logged in")}}}', "104, 117, 110"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_goes(text: str, secret: str) -> None:
    assert secret in text
    clean = redact(text)
    assert secret not in clean
    assert "redacted" in clean


KEPT = [
    "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "GPU UUID : GPU-509665ad-b600-ac93-3616-d754b23d636d",
    "Node GUID: 0x946dae0300a1b2c3  Port GUID: 0x946dae0300a1b2c4",
    f"image nvcr.io/nvidia/pytorch@sha256:{HEX40}{HEX40[:24]} commit {HEX40}",
    "gpu-017.cluster.local 10.2.0.5:29500 fe80::1 mlx5_3",
    "consumed tokens: 1.2e9 | tokens per second: 12345.6 | max_tokens=4096 tokenizer=gpt2 token_type=bpe",
    "NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_SOCKET_IFNAME=eth0 CUDA_VISIBLE_DEVICES=0,1 LD_LIBRARY_PATH=/usr/lib",
    "PWD=/home/alice OLDPWD=/tmp",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "KeyError: 'input_ids'",
    "password: None, token: null, secret=${SECRET}",
]


@pytest.mark.parametrize("text", KEPT)
def test_evidence_stays_as_it_was(text: str) -> None:
    assert redact(text) == text


def test_what_surrounds_a_secret_stays() -> None:
    assert redact('x {"password": "hunter2", "host": "gpu-017"} y') == 'x {"password": "[redacted]", "host": "gpu-017"} y'
    assert redact("redis://bot:pa55@h:1/0") == "redis://bot:[redacted]@h:1/0"


def test_an_unclosed_key_block_does_not_swallow_the_evidence_after_it() -> None:
    text = "-----BEGIN PRIVATE KEY-----\nNVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    assert "Xid (PCI:0000:9b:00): 79" in redact(text)


PIECES = [text for text, _ in SECRETS] + KEPT + ["\n", " ", '"', "'", "\\", "=", ":", "token", "@", "://", "Bearer ", "é", "[redacted]"]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["", " ", "\n", ","]))
def test_redacting_twice_is_redacting_once(parts: list[str], glue: str) -> None:
    once = redact(glue.join(parts))
    assert redact(once) == once


@given(st.text(max_size=200))
def test_any_text_can_be_redacted_and_made_visible(text: str) -> None:
    assert redact(redact(text)) == redact(text)
    assert show_invisible(show_invisible(text)) == show_invisible(text)


@pytest.mark.parametrize(
    "evil",
    [
        'password="',
        "://a:",
        "eyJaaaaaaaaaa.",
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "token=\\",
        "wandb ",
        "--token ",
        "A_KEY=",
        '"MESSAGE":[',
        "a",
        "basic ",
        "sshpass ",
        "curl -u a",
        "docker login ",
        "openssl -k ",
        "wandb vault login ",
        "password ",
        "token a1",
        "echo a password-stdin ",
        '"name": "token", "value',
        "tokens:\n",
        "kind: secret\ndata:\n",
        "-----BEGIN PRIVATE KEY-----\na: Ab1\n",
        "a:*:a:b:",
        "\x1b[0m",
        "\u200b",
        "://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@",
        "://a:/a/b",
        "$6$",
        "<token>",
        "token: [1",
        "machine a password",
        'token=\\\\"a',
        'token=\\"a token=\\\\"b ',
        '{\\"a\\": \\\\\\"password=a1\\n',
        "\\\\",
        "\\u0022",
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6kL9nO2qR5tU8wX1zA4cD7fG0iJ3+\n",
        'expect "assword:"\nsend "a1b2c3\\r"\n',
        "the password of a b is ",
        "a1b2c3 is the password ",
        " user=a pass=",
        "root / a1b2c3 login ",
        "chpasswd:\n  a:b1c2d3\n",
        '"kind":"Secret","data":{"a":"b"',
    ],
)
def test_the_cost_is_linear_in_a_hostile_text(evil: str) -> None:
    def seconds(size: int) -> float:
        text = (evil * (size // len(evil) + 1))[:size]
        began = time.process_time()
        redact(text)
        return time.process_time() - began

    def is_linear() -> bool:
        return seconds(400_000) < 8 * 4 * max(seconds(50_000), 0.002)  # eight times the text; a quadratic pattern takes 64 times as long

    assert any(is_linear() for _ in range(4))  # load may lengthen one of the two times


def test_hidden_characters_show() -> None:
    assert show_invisible("gpu-n1\u202e \x1b[31m\u200b\ufeff\u00a0\x00") == "gpu-n1‹U+202E› ‹U+001B›[31m‹U+200B›‹U+FEFF›‹U+00A0›‹U+0000›"
    assert show_invisible("a\ufe0fb\U000e0154c\u2800d\u3000") == "a‹U+FE0F›b‹U+E0154›c‹U+2800›d‹U+3000›"
    assert show_invisible("tabs\tand\nlines, é and 你好") == "tabs\tand\nlines, é and 你好"


def test_base64_of_no_secret_name_stays() -> None:
    data = base64.b64encode(b"a perfectly ordinary blob of bytes").decode()
    assert redact(f"certificate-authority-data: {data}") == f"certificate-authority-data: {data}"


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_secret_is_found_at_every_place_of_a_large_text(ending: str) -> None:
    filler = "step 12: 801 tokens a second\n" * (BLOCK_CHARS // 29)
    text = f"{filler}password=hunter2{ending}{filler}Password=hunter2{ending}" if ending else f"{filler}password=hunter2"
    clean = redact(text)
    assert "hunter2" not in clean
    assert clean.replace("[redacted]", "hunter2") == text


FRAGMENTS = st.sampled_from(
    [
        *SECRET_NAME_NEEDLES,
        "access_",
        "api-",
        "client_key_data",
        "sig",
        "&",
        "?",
        "is",
        "type",
        " ",
        "-",
        "_",
        "x",
        "0",
        '"',
        "'",
        "=",
        ":",
        "\t",
        "\\",
    ]
)


@given(st.lists(FRAGMENTS, max_size=9).map("".join))
def test_wherever_something_is_assigned_to_a_name_a_sign_follows_its_needle(line: str) -> None:
    if MAYBE_ASSIGNED_PATTERN.search(line):
        places = (at for needle in SECRET_NAME_NEEDLES for at in range(len(line)) if line.startswith(needle, at))
        assert any(SIGN_FOLLOWS_PATTERN.match(line, at) for at in places)


def test_what_a_redaction_uncovers_goes_too_however_long_the_text_around_it() -> None:
    noise = [f"iteration {n} tokens/s: {n * 7}" for n in range(3000)]
    once = "password: token=abc123def456 and secret=zyx987wvu654"
    text = "\n".join((*noise, once, *noise, "password: hunter2x", *noise))
    clean = redact(text)
    assert redact(clean) == clean
    assert not any(secret in clean for secret in ("abc123def456", "zyx987wvu654", "hunter2x"))
    assert [line for line in clean.split("\n") if line.startswith("iteration")] == noise * 3


def test_a_value_far_below_its_name_goes_and_the_lines_between_say_nothing_of_it() -> None:
    block = ["  token: |", *(f"    part{n}of9secret8" for n in range(300)), "  other: plain words"]
    clean = redact("\n".join(block))
    assert "of9secret8" not in clean
    assert clean.endswith("  other: plain words")


def test_lines_that_differ_in_their_digits_alone_are_each_held_to_needles_with_digits() -> None:
    easypost, other = "EZAK" + "a1" * 30, "4b1d" + "a" * 38
    lines = [f"using {easypost}", f"using {other}", f"using {other.replace('4b1d', '5b2d')}"]
    assert redact("\n".join(lines)).split("\n") == ["using [redacted]", "using [redacted]", lines[2]]
