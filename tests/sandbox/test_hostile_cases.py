"""Hostile case files are parsed or refused quickly in bounded text, without terminal control characters."""

from pathlib import Path

import pytest
import yaml

from deploy.sandbox.cluster.cases.reader import LARGEST_CASE, MOST_NODES, MOST_PROBLEMS, MOST_ROWS, BadCase, load_case, parse_case
from kb.yaml_files import load_plain

BASE = "profile: dgx-h100-8\nnodes: [gpu-001, gpu-002]\nticket: {text: 'job 4711 on gpu-001 died with an NCCL error'}\n"
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9))
NODES = "profile: dgx-h100-8\nnodes: "

# fmt: off
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "controls":              ("\x00\x01\x02",                                                   "is not YAML"),
    "not UTF-8":             (b"\xff\xfe\xfa profile: x",                                       "is not YAML"),
    "nothing":               ("",                                                               "must be a mapping"),
    "a list":                ("[1, 2]",                                                         "must be a mapping"),
    "deep lists":            ("a: " + "[" * 5000,                                               "nested more than"),
    "deep mappings":         ("{a: " * 300,                                                     "nested more than"),
    "a bomb of aliases":     (BOMB,                                                             "aliases repeat"),
    "python":                (f"{BASE}x: !!python/object/apply:os.system ['touch pwned']\n",    "is not YAML"),
    "no month":              (f"{BASE}t0: 2026-13-45\n",                                        "cannot be read"),
    "no time":               (f"{BASE}t0: !!timestamp nope\n",                                  "cannot be read"),
    "no number":             (f"{BASE}x: !!int foo\n",                                          "cannot be read"),
    "5000 digits":           (f"{BASE}x: {'9' * 5000}\n",                                       "cannot be read"),
    "too large":             (f"{BASE}note: '{'x' * LARGEST_CASE}'\n",                          "larger than"),
    "a profile of parts":    ("profile: [a]\nnodes: 2\n",                                       "profile: "),
    "a profile by name":     ("profile: {a: 1}\nnodes: 2\n",                                    "profile: "),
    "a fault of parts":      (f"{BASE}faults: [{{id: [G05], node: gpu-001}}]\n",                "not in the fault catalogue"),
    "400 digits":            (f"{BASE}faults: [{{id: G05, node: gpu-001, t: {'9' * 400}}}]\n",  "within a year"),
    "before all time":       (f"{BASE}faults: [{{id: G05, node: gpu-001, t: -1.0e+15}}]\n",     "within a year"),
    "after all time":        (f"{BASE}faults: [{{id: G05, node: gpu-001, t: 1.0e+300}}]\n",     "within a year"),
    "no time at all":        (f"{BASE}faults: [{{id: G05, node: gpu-001, t: .nan}}]\n",         "within a year"),
    "the year 1":            (f"{BASE}t0: 0001-01-01T00:00:00\n",                               "between 1990 and 2100"),
    "the year 9999":         (f"{BASE}t0: 9999-12-31T23:59:59\n",                               "between 1990 and 2100"),
    "a node over lines":     (NODES + '["gpu\\n001", "gpu\\e[2J"]\n',                           "no host can be called"),
    "nodes that are paths":  (NODES + "['../../etc', '/x', 'a b']\n",                           "no host can be called"),
    "a long name":           (NODES + f"[{'a' * 100_000}]\n",                                   "no host can be called"),
    "too many nodes":        (NODES + f"[{','.join(f'n{n}' for n in range(MOST_NODES + 1))}]\n", "nodes: must be"),
    "too many faults":       (BASE + f"faults: [{','.join(['{id: G05, node: gpu-001}'] * (MOST_ROWS + 1))}]\n", "faults: must be a list of at most"),
    "too many slips":        (BASE + f"faults: [{','.join(['{id: Z99, nod: x}'] * MOST_ROWS)}]\n", "more problems"),
    "an endless modifier":   (f"{BASE}modifiers: ['{'a' * 500_000}']\n",                        "is not of the form"),
    "modifiers of anything": (f"{BASE}modifiers: [7, null, [x], {{a: b}}]\n",                   "is not of the form"),
    "ESC in a field":        (f'{BASE}"fault\\e[2Js": 1\n',                                     "did you mean faults"),
    "ESC in a node":         (f'{BASE}faults: [{{id: G05, node: "\\e[31mred"}}]\n',             "not among the nodes"),
    "ESC in a host":         (f'{BASE}outputs: {{"\\e]52;c;eA==\\a": {{smi: {{stdout: x}}}}}}\n', "is not among the nodes"),
    "a command of its own":  (f"{BASE}outputs: {{gpu-001: {{'touch pwned': {{stdout: x}}}}}}\n", "is not a check"),
    "a command beside":      (f"{BASE}outputs: {{gpu-001: {{smi: {{command: [touch, pwned]}}}}}}\n", "may have stdout"),
    "a path for an id":      (f"{BASE}id: ../../../tmp/out\n",                                  "id: "),
    "an id over lines":      (f'{BASE}id: "a\\nb"\n',                                           "id: "),
    "ESC for an id":         (f'{BASE}id: "\\e[2J"\n',                                          "id: "),
    "a file of a folder":    (f"{NODES}2\nticket: {{attachments: [{{name: ../../x.log, text: x}}]}}\n", "must have a name"),
    "a status beyond all":   (f"{BASE}outputs: {{gpu-001: {{smi: {{status: {'9' * 300}}}}}}}\n", "must be a whole number"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_bounded_words_that_command_no_terminal(name: str, tmp_path: Path) -> None:
    text, says = REFUSED[name]
    file = tmp_path / "case.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadCase, match=says) as why:
        load_case(file)
    said = "\n".join(why.value.problems)
    assert (len(why.value.problems) <= MOST_PROBLEMS + 1, max(map(len, why.value.problems)) < 600) == (True, True)
    assert [char for char in said if ord(char) < 32 and char != "\n"] == []
    assert not (tmp_path / "pwned").exists()


def test_half_letters_are_replaced_wherever_text_may_stand() -> None:
    ticket = {"text": "hang \ud800", "author": "\udfff", "attachments": [{"name": "a.log", "text": "\ud800"}]}
    raw = {"profile": "dgx-h100-8", "nodes": ["gpu-001"], "ticket": ticket, "outputs": {"gpu-001": {"smi": {"stdout": "\ud800"}}}}
    case = parse_case(raw)
    told = [case.ticket.text, case.ticket.author, case.ticket.attachments[0].text, case.outputs["gpu-001"]["smi"].stdout]
    assert [text.encode() for text in told] == [b"hang ?", b"?", b"?", b"?"]


@pytest.mark.parametrize("text", ["t0: 2026-13-45", "x: !!timestamp no", "x: !!int foo", "x: " + "9" * 5000, "x: !!float x", "x: !!bool 7"])
def test_an_impossible_value_is_bad_yaml_for_a_plain_reader(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        load_plain(text)
