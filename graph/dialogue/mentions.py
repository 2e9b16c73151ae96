"""Find hosts, devices, jobs, causes, checks, remedies and people in a text. Pure; only known ids are returned."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Final

from graph.dialogue.said import Vocabulary
from graph.dialogue.spelling import LONGEST, normalize_words, strip_accents
from graph.dialogue.things import (
    CAUSE_WORDS,
    CAUSE_WORDS_ABROAD,
    CHECK_WORDS,
    CHECK_WORDS_ABROAD,
    REMEDY_WORDS,
    REMEDY_WORDS_ABROAD,
)
from graph.extraction.healthy_hosts import find_excluded_hosts, find_hosts_called_healthy
from graph.extraction.hosts import find_hosts, find_job_id
from tools.checks import CHECKS
from tools.remedies import REMEDIES

_DEVICE = re.compile(r"\b(?:gpu|card|device)s?[ ]?(?:#|no\.? ?|number )?([0-9]|1[0-5])(?![\w.:%-])|\b(mlx5_\d{1,2})\b", re.IGNORECASE)
_XID = re.compile(r"\bs?xids?[ :#=]{0,3}(\d{1,5})\b", re.IGNORECASE)
_PERSON = re.compile(r"<@([UW][A-Z0-9]{2,20})(?:\|[^<>]{0,80})?>|(?<![\w@])@([UW][A-Z0-9]{5,20})\b")
_CALLED = re.compile(r"(?<![\w@<])@([^\W\d_][\w.-]{1,40})")  # A name that is typed and is no Slack mention.
_NOT_CALLED = frozenset({"rackmedic", "here", "channel", "everyone", "all", "team"})
_UNIT = re.compile(r"(?:min|minute|hour|day|hr)s?|h|m")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?|\d{1,2}(?::\d\d)?[ap]m")
_TIME = re.compile(r"\d{1,4}(?::\d\d){0,2}(?:-\d\d-\d\d)?(?:am|pm|h|min|mins|m|s|d|hours?|z|utc|hrs?)?")
_SPAN = re.compile(r"\d{1,3}(?:m|mins?|minutes?|h|hrs?|hours?)")
_OTHERS = re.compile(r"\b(?:check|look at|scan|recheck|verify|inspect|test) (?:the |all )?(?:others?|rest)\b", re.IGNORECASE)
_TILL = frozenset({"until", "till"})
_LABEL = re.compile(r"\b[A-Z_]{3,20}\.[A-Z_0-9]{2,20}(?:\.\w{2,60})?", re.IGNORECASE)
_LONGEST_PHRASE = 6
_PLAIN_WORDS = frozenset({"time", "store"})  # Check ids that are everyday words.
_ARTICLES = frozenset({"the", "a", "an", "some", "my", "our", "your", "this", "that", "these", "those", "of", "please"})
_COMMON_WORDS: Final = """
a an and be by does for from gpu gpus has have host in is its job node not of on or than that the to too was with
"""
_COMMON: Final = frozenset(_COMMON_WORDS.split())


@dataclass(frozen=True, slots=True)
class NamedEntities:
    """`used`: positions of the naming words, by kind."""

    hosts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    group: str = ""
    job: str = ""
    device: str = ""
    person: str = ""
    xid: str = ""
    labels: tuple[str, ...] = ()
    category: str = ""
    check: str = ""
    remedy: str = ""
    used: Mapping[str, Collection[int]] = field(default_factory=dict)


class EntityFinder:
    """Finds vocabulary entries; hosts are looked up once for the whole text."""

    def __init__(self, text: str, names: Vocabulary) -> None:
        self._names = names
        text = text[:LONGEST]
        self._found = find_hosts(text, names.host_index)
        others = _OTHERS.search(text) is not None
        fine = find_hosts_called_healthy(text, names.host_index) if others or len(self._found.hosts) > 1 else frozenset()
        if blamed := tuple(host for host in self._found.hosts if host not in fine):
            self._found = replace(self._found, hosts=blamed)
        self._left_out = find_excluded_hosts(text, names.host_index)
        if others and fine and not blamed:  # “gpu-020 is fine, look at the others”
            self._left_out |= fine
        self._job = find_job_id(text)
        self._wordy = names.host_index.wordy
        self._stems = {_stem(name) for name in (*self._found.hosts, *self._found.unknown)}

    def find_entities(self, text: str, words: Sequence[str], *, timed: bool = False) -> NamedEntities:
        """Return the entities of one sentence."""
        used: dict[str, set[int]] = {}
        device, xid, person = _first(_DEVICE, text), _first(_XID, text), _first(_PERSON, text)
        hosts = self._hosts(text, words, used)
        if device:
            used["device"] = {at for at, word in enumerate(words) if word.lstrip("#") == device or word in ("gpu", "card", "device")}
        if xid:
            used["xid"] = {at for at, word in enumerate(words) if xid in word or "xid" in word}
        groups = {group.lower(): group for group in self._names.groups}
        called = {strip_accents(name[1].lower()) for name in _CALLED.finditer(text)} - groups.keys() - _NOT_CALLED
        if person or called:
            used["person"] = {at for at, word in enumerate(words) if (person and person.lower() in word) or word in called}
        if named := {at for at, word in enumerate(words) if word in groups}:
            used["group"] = named
        job = self._job if self._job and self._job.lower() in text.lower() else ""
        if job:
            used["job"] = {at for at, word in enumerate(words) if job.lower() in word}
        used["time"] = {
            at
            for at, word in enumerate(words)
            if (_TIME if timed or _UNIT.fullmatch("".join(words[at + 1 : at + 2])) else _CLOCK).fullmatch(word)
            or _SPAN.fullmatch(word)
            or (words[at - 1 : at] and words[at - 1] in _TILL and _TIME.fullmatch(word))
        }
        labels, category = self._causes(text, words, used)
        known, unknown = (self._found.hosts, self._found.unknown) if hosts else ((), ())
        spoken = dict.fromkeys((*known, *(self._wordy[word] for word in words if word in self._wordy)))
        return NamedEntities(
            hosts=tuple(host for host in spoken if host not in self._left_out),
            unknown=unknown,
            left_out=tuple(sorted(self._left_out)),
            group=next((groups[word] for word in words if word in groups), ""),
            job=job,
            device=device if not device.isdigit() else f"gpu{device}",
            person=person,
            xid=xid,
            labels=labels,
            category=category,
            check=self._one(words, "check", _check_phrases(), self._names.checks, used),
            remedy=self._one(words, "remedy", _remedy_phrases(), self._names.remedies, used),
            used=used,
        )

    def _hosts(self, text: str, words: Sequence[str], used: dict[str, set[int]]) -> bool:
        named = {at for at, word in enumerate(words) if word in self._wordy or (word[-1:] + word[:1] and self._is_host(word))}
        if named:
            named |= {at for at, word in enumerate(words) if word.replace("-", "").replace(".", "").isdigit()}
            used["host"] = named
        return bool(named)

    def _is_host(self, word: str) -> bool:
        if not any(letter.isdigit() for letter in word) or not word[0].isalpha():
            return False
        return _stem(word) in self._stems

    def _causes(self, text: str, words: Sequence[str], used: dict[str, set[int]]) -> tuple[tuple[str, ...], str]:
        titles, lowered = self._names.titles, text.lower()
        exact = [label for found in _LABEL.finditer(text) for label in titles if label.lower().startswith(found[0].lower())]
        exact += [label for label, title in titles.items() if title.lower() in lowered or label.rpartition(".")[2].lower() in lowered]
        if exact:
            spelt = " ".join(f"{label} {titles[label]}" for label in exact).lower()
            used["cause"] = {
                at for at, word in enumerate(words) if word not in _ARTICLES and (word in spelt or word.split(".")[0] in spelt)
            }
            return tuple(dict.fromkeys(exact)), ""
        said = [row for row in _phrases(words, _cause_phrases()) if not (row[2] == "GPU" and "device" in used)]
        starts = [start for _, _, value in said for start in value.split()]
        if said:
            used["cause"] = {at for places, _, _ in said for at in places}
        under = [label for start in starts if "." in start for label in titles if label.startswith(start)]
        if not starts and (titled := _titled(words, titles)):
            used["cause"] = {at for at, word in enumerate(words) if word not in _COMMON}
            return tuple(titled), ""
        return tuple(dict.fromkeys(under)), next((start for start in starts if "." not in start), "") if not under else ""

    def _one(
        self, words: Sequence[str], kind: str, table: Mapping[tuple[str, ...], str], known: Collection[str], used: dict[str, set[int]]
    ) -> str:
        ids = {_spelt_name(one.replace("_", " ")): one for one in known if one not in _PLAIN_WORDS}
        found = [row for row in _phrases(words, {**table, **ids}) if row[2] in known]
        for places, _, _ in found:
            used.setdefault(kind, set()).update(places)
        return max(found, key=lambda row: row[1])[2] if found else ""


def is_exclusive_check(check: str) -> bool:
    return check in CHECKS and CHECKS[check].exclusive


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


def _stem(name: str) -> str:
    return re.split(r"\d|\[", name.lower().strip("`'\""), maxsplit=1)[0].rstrip("-_.")


@lru_cache(maxsize=4096)
def _spelt_name(name: str) -> tuple[str, ...]:
    """Cached: every message is compared with some hundred names."""
    return tuple(normalize_words(name))


def _titled(words: Sequence[str], titles: Mapping[str, str]) -> list[str]:
    said = {word[:6] for word in words} - {word[:6] for word in _COMMON}
    best: list[tuple[float, str]] = []
    for label, title in titles.items():
        telling = {word[:6] for word in _spelt_name(title) if word not in _COMMON}
        shared = telling & said
        if len(shared) >= 2 and len(shared) * 5 >= len(telling) * 3:
            best.append((len(shared) / len(telling), label))
    return [label for share, label in sorted(best, reverse=True)[:3] if share == max(best)[0]]


def _phrases(words: Sequence[str], table: Mapping[tuple[str, ...], str]) -> Iterator[tuple[Sequence[int], int, str]]:
    """Yield (positions, word count, value) of the longest phrases without overlap, ignoring articles."""
    told = [at for at, word in enumerate(words) if word not in _ARTICLES]
    start = 0
    while start < len(told):
        for size in range(min(_LONGEST_PHRASE, len(told) - start), 0, -1):
            places = told[start : start + size]
            value = table.get(tuple(words[at] for at in places))
            if value:
                yield range(places[0], places[-1] + 1), size, value
                start += size - 1
                break
        start += 1


@cache
def _cause_phrases() -> Mapping[tuple[str, ...], str]:
    return _spelt([*CAUSE_WORDS.items(), *CAUSE_WORDS_ABROAD.items()])


@cache
def _check_phrases() -> Mapping[tuple[str, ...], str]:
    return _spelt([*CHECK_WORDS.items(), *CHECK_WORDS_ABROAD.items()])


@cache
def _remedy_phrases() -> Mapping[tuple[str, ...], str]:
    return _spelt([*REMEDY_WORDS.items(), *REMEDY_WORDS_ABROAD.items()])


@cache
def list_thing_words() -> frozenset[str]:
    """Return every single word that names a cause, check or remedy."""
    ids = {part for one in (*CHECKS, *REMEDIES) for part in one.split("_")}
    return frozenset(
        {word for table in (_cause_phrases(), _check_phrases(), _remedy_phrases()) for phrase in table for word in phrase} | ids
    )


def _spelt(rows: Iterable[tuple[str, str]]) -> Mapping[tuple[str, ...], str]:
    return {_bare(normalize_words(phrase)): value for value, phrases in rows for phrase in phrases.split(", ")}


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in _ARTICLES)
