"""YAML files written by people: values with line numbers, or every problem in words."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, Field, ValidationError

from kb.schema import Flag, Number, StrictModel, Text, Texts, iter_complaints
from kb.yaml_files import Problems, read_document, validate_document


class _Rack(StrictModel):
    name: Text
    slots: Annotated[int, Field(ge=1)] = 1


class _Site(StrictModel):
    title: Text
    share: Number = 0.5
    open: Flag = True
    kind: Literal["lab", "hall"] = "hall"
    words: Texts = ()
    racks: Annotated[tuple[_Rack, ...], Field(min_length=1)]
    by_name: dict[str, _Rack] = Field(default_factory=dict)


GOOD = """\
title: The first
  hall
share: 1
words: [one, two]
racks:
  - name: r1
  - {name: r2, slots: 4}
by_name:
  spare:
    name: r3
"""


def problems_of(text: str | bytes, folder: Path) -> list[str]:
    """Return the problems of the text as a site's file, without the folder."""
    path, problems = folder / "site.yaml", Problems()
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    document = read_document(path, problems)
    if document:
        assert (validate_document(document, _Site, problems) is None) <= bool(problems.found)
    return [problem.removeprefix(f"{folder}/") for problem in problems.found]


def test_a_good_file_is_its_model_and_prose_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(GOOD)
    document = read_document(tmp_path / "site.yaml", Problems())
    assert document is not None
    site = validate_document(document, _Site, Problems())
    assert site is not None
    assert (site.title, site.share, site.racks[1].slots, site.by_name["spare"].name) == ("The first hall", 1.0, 4, "r3")
    assert [
        str(document.find_position(*loc)).rpartition(":")[2] for loc in (("racks",), ("racks", 1, "slots"), ("by_name", "spare", "name"))
    ] == [
        "5",
        "7",
        "10",
    ]
    assert str(document.find_position("by_name", "spare", "slots")).endswith(":9"), "what is not there stands where it should be"


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        ("share: 1", "share: true", "site.yaml:3: share: share must be a number, not True"),
        ("share: 1", "share: '1'", "site.yaml:3: share: share must be a number, not '1'"),
        ("share: 1", "open: 1", "site.yaml:3: open: open must be true or false, not 1"),
        ("share: 1", "kind: tent", "site.yaml:3: kind: kind 'tent' is none of lab, hall"),
        ("share: 1", "shares: 1", "site.yaml:3: unknown field shares; 'shares' is none of title, share, open, kind, words, racks, by_name"),
        ("[one, two]", "one", "site.yaml:4: words: words must be a list, not 'one'"),
        ("[one, two]", "[one, 2]", "site.yaml:4: words.1: words must be text, not 2"),
        ("- name: r1", "- nam: r1", "site.yaml:6: racks.0: name is missing"),
        ("- name: r1", "- nam: r1", "site.yaml:6: racks.0: unknown field nam; 'nam' is none of name, slots"),
        ("slots: 4", "slots: 0", "site.yaml:7: racks.1.slots: slots must be greater than or equal to 1, not 0"),
        ("    name: r3", "    name: r3\n    slots: many", "site.yaml:11: by_name.spare.slots: slots must be a whole number, not 'many'"),
        ("  - name: r1\n  - {name: r2, slots: 4}\n", "  []\n", "site.yaml:5: racks: racks must be a list that is not empty"),
        ("share: 1", "share: 2026-13-45", "site.yaml:3: not a plain value: month must be in 1..12"),
        ("share: 1", "share: 1\nshare: 2", "site.yaml:4: share stands twice"),
        ("share: 1", "? [a]\n: 1", "site.yaml:3: a name must be text, not ['a']"),
    ],
    ids=lambda value: None if "\n" in value else value,
)
def test_a_problem_says_where_and_what_would_do(good: str, bad: str, told: str, tmp_path: Path) -> None:
    assert told in problems_of(GOOD.replace(good, bad, 1), tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "site.yaml:1: the file is empty"),
        ("just text", "site.yaml:1: expected a mapping of title, share, open, kind, words, racks, by_name"),
        ("[" * 100_000, "site.yaml:1: is not YAML: nested more than 64 levels deep"),
        ("[" * 64 + "]" * 63 + "\n", "site.yaml:2: is not YAML"),
        (
            "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 5000))]),
            "site.yaml:65: is not YAML: nested more than 64 levels deep",
        ),
        (
            "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
            "site.yaml:6: is not YAML: its aliases",
        ),
        (
            "a: &a {b: c, d: e, f: g, h: i, j: k}\n" + "".join(f"m{n}: {{<<: *a}}\n" for n in range(20_000)),
            "site.yaml:18183: is not YAML: its aliases repeat",
        ),
        ("".join(f"k{n}: 1\n" for n in range(60_000)), "site.yaml:50000: is not YAML: it holds more than 100000 names and values"),
        ("- []\n" * 110_000, "site.yaml:100000: is not YAML: it holds more than 100000 names and values"),
        (b"title: \xff\xfe", "site.yaml:1: cannot be read: it is not UTF-8 text (byte 7 is 0xff)"),
        ("title: !!python/name:os.system x", "site.yaml:1: not a plain value: could not determine a constructor for the tag"),
        ("a: &a {b: *a}", "site.yaml:1: not a plain value: it contains itself"),
    ],
    ids=["empty", "text", "deep", "unclosed", "chain", "bomb", "merges", "keys", "rows", "bytes", "tag", "circle"],
)
def test_what_is_no_such_file_is_refused_in_words(text: str | bytes, told: str, tmp_path: Path) -> None:
    assert any(problem.startswith(told) for problem in problems_of(text, tmp_path)), problems_of(text, tmp_path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    problems = Problems()
    assert read_document(tmp_path / "none.yaml", problems) is None
    assert problems.found == [f"{tmp_path}/none.yaml:1: cannot be read: No such file or directory"]


def test_a_validator_may_have_several_reasons() -> None:
    def refuse(word: str) -> str:
        raise ValueError(f"{word} is too short", f"{word} is no word")

    class _Picky(StrictModel):
        word: Annotated[str, AfterValidator(refuse)]

    with pytest.raises(ValidationError) as why:
        _Picky.model_validate({"word": "a"})
    assert list(iter_complaints(why.value, _Picky)) == [(("word",), "word: a is too short"), (("word",), "word: a is no word")]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*_Site.model_fields, *_Rack.model_fields, "x"]), inner),
    max_leaves=12,
)


@given(plain)
def test_any_data_is_a_site_or_a_list_of_problems(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    folder = tmp_path_factory.getbasetemp()
    for problem in problems_of(yaml.safe_dump(data), folder):
        assert problem.startswith("site.yaml:")
        assert int(problem.split(":")[1]) >= 1


@given(st.text(alphabet=st.sampled_from(list("ab:-[]{}&*<!?|>'\"#, \n\t\0é1")), max_size=60))
def test_any_text_is_a_site_or_a_list_of_problems(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assert problems_of(text, tmp_path_factory.getbasetemp())
