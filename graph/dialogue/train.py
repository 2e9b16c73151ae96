"""Train the classifiers from the phrases: `python -m graph.dialogue.train`. Needs scikit-learn (the dev group).

The result depends on the phrases and this package alone: the same phrases give the same weights.
"""

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import yaml

from graph.dialogue.classifier import INTENTS, TENANT_REQUESTS, get_weights_path
from graph.dialogue.clauses import Clause, split_clauses
from graph.dialogue.features import BUCKETS, compute_features
from graph.dialogue.intents import Intent
from graph.dialogue.known_words import KNOWN_WORDS_PATH
from graph.dialogue.said import Vocabulary
from graph.dialogue.spelling import expand_abbreviations, normalize_words, split_sentences
from graph.dialogue.tenant_requests import NO_REQUEST
from graph.extraction.hosts import expand_host_numbers
from kb.taxonomy.loader import load_taxonomy
from tools.checks import CHECKS
from tools.inventory.host_ranges import expand_host_range
from tools.remedies import REMEDIES

PHRASES_FOLDER: Final = Path(__file__).parent / "phrases"
PLAIN_FROM = 15  # A word that also calls a person is known if so many phrases have it in lower case.
COMMON_FROM = 3  # A word of so many phrases is known, and corrected into no other.
MIN_WEIGHT = 2  # Of 127; smaller weights become zero, which keeps the file small.
INVERSE_REGULARISATION, MAX_ITERATIONS, TOLERANCE = 10.0, 300, 1e-4
MAX_FRAMED_WORDS = 6  # A phrase of so many words is trained with words around it besides.
_NOW: Final = datetime(2026, 5, 20, 8, 17, tzinfo=UTC)
_MENTIONED = re.compile(r"@([A-Za-z]\w{2,})", re.ASCII)
_CALLED = re.compile(r"^(?:(?:[Hh]ey|[Hh]i|[Oo]k|[Tt]hanks|[Tt]hx) )?([A-Z][a-z]+),", re.ASCII)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "host": "gpu-002|gpu-005|gpu-031|gpu-017|gpu-008",
        "hosts": "gpu-001 and gpu-002|gpu-[001-003]|gpu-003, gpu-004|gpu-017 gpu-018|gpu-[021-024]",
        "group": "train|@train",
        "person": "<@U0OLGA77>|@U0PRIYA11|@marco",
        "time": "02:00|yesterday|14:30|this morning|3am|09:15",
        "job": "4711|88123",
        "check": "dmesg|nvidia-smi|ibstat|kernel log|job log|lspci|the ecc counters|topo",
        "test": "nccl test|dcgm|bandwidth test|gemm test|burn-in|nccl1|ib bandwidth test|dcgmi diag",
        "remedy": "drain|reboot|reset the gpu|power cycle|cordon|reload the driver|restart the fabric manager|isolate|kill the job",
        "cause": (
            "the network|the driver|the cable|ecc|nvlink|the power supply|overheating|a full disk|nccl|the switch|thermal|our code|memory"
        ),
    },
    "de": {
        "hosts": "gpu-001 und gpu-002|gpu-[001-003]|gpu-021 bis gpu-024",
        "time": "02:00|gestern|14 uhr|heute morgen",
        "remedy": "drain|reboot|reset|neustart",
        "cause": "das netzwerk|das kabel|der treiber|der speicher|das netzteil|nccl|ecc|die hitze|der switch",
    },
    "fr": {
        "hosts": "gpu-001 et gpu-002|gpu-[001-003]",
        "time": "02:00|hier|14h|ce matin",
        "remedy": "draine|redémarre|reset|reboot",
        "cause": "le réseau|le câble|le pilote|la mémoire|l'alimentation|nccl|ecc|la surchauffe|le switch",
    },
    "es": {
        "hosts": "gpu-001 y gpu-002|gpu-[001-003]",
        "time": "02:00|ayer|las 14:00|esta mañana",
        "remedy": "drena|reinicia|reset|reboot",
        "cause": "la red|el cable|el controlador|la memoria|la fuente|nccl|ecc|el calor|el switch",
    },
    "zh": {
        "hosts": "gpu-001和gpu-002|gpu-001、gpu-002",
        "time": "02:00|昨天|今天早上",
        "check": "dmesg|nvidia-smi|内核日志|ibstat",
        "test": "nccl测试|nccl test|dcgm|带宽测试",
        "remedy": "重启|排空|reset",
        "cause": "网络|线缆|驱动|内存|电源|nccl|ecc|过热|交换机",
    },
}


# What people write around a request. `{}` is the phrase; it is trained with one of them besides, in turn.
_FRAMES: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        "hey, {}", "ok {}", "so {}", "and {}", "{} please", "{} thanks", "hi, {}", "well, {}", "sorry, {}", "{}, thx", "hello! {}", "also {}",
        "quick one: {}", "{} pls", "hm, {}", "btw {}",
    ),
    "de": ("hey, {}", "ok, {}", "und {}", "{} bitte", "hallo, {}", "{} danke", "also {}", "sorry, {}"),
    "fr": ("salut, {}", "ok, {}", "et {}", "{} svp", "bonjour, {}", "{} merci", "alors {}", "pardon, {}"),
    "es": ("hola, {}", "ok, {}", "y {}", "{} por favor", "oye, {}", "{} gracias", "entonces {}", "perdón, {}"),
    "zh": ("你好，{}", "那{}", "请问{}", "麻烦{}", "{}，谢谢", "好的，{}"),
}  # fmt: skip


# What people write besides a request. A request with it is a report, and trained as one.
_FACTS: Final[Mapping[str, Sequence[str]]] = {
    "en": (
        "{}, and by the way the ranks differ in their loss", "{} and {host} prints strange warnings", "{}, rank 3 waits for the others since {time}",
        "{}, but now the data loader reads nothing", "{} and also the second port of {host} is gone", "{}. The log ends at step 4000 on all ranks",
        "{} because our numbers changed since the last checkpoint", "{}, we see only four of eight cards",
    ),
    "de": ("{} und übrigens weichen die Werte der Ränge ab", "{}, aber jetzt liest der Data Loader nichts", "{}, auf {host} fehlen Karten"),
    "fr": ("{} et au fait les rangs ont des valeurs différentes", "{}, mais maintenant rien n'est lu", "{}, sur {host} il manque des cartes"),
    "es": ("{} y por cierto los rangos dan valores distintos", "{}, pero ahora no se lee nada", "{}, en {host} faltan tarjetas"),
    "zh": ("{}，另外各个 rank 的数值不一样", "{}，但是现在数据读不出来", "{}，{host} 上少了几张卡"),
}  # fmt: skip
# Intents whose phrases no tenant's request resembles.
_NO_REQUESTS: Final = frozenset(
    {
        Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.SHOW_PICTURE, Intent.COMPARE, Intent.WHY_NOT, Intent.SAFE_TO, Intent.REPORT,
        Intent.RUN_CHECK, Intent.RUN_GUIDE, Intent.CORRECT, Intent.NEW_FACTS, Intent.FIXED, Intent.META, Intent.THANKS, Intent.WIDEN, Intent.NARROW,
        Intent.HAPPENED_BEFORE, Intent.CHANGED_SINCE, Intent.WHAT_NOW, Intent.ON_APPROVE, Intent.WHO_MAY_APPROVE, Intent.HELP, Intent.SUMMARY,
        Intent.ACTION_DETAIL, Intent.FACT_DETAIL,
        Intent.HOST_CHANGED,
    }
)  # fmt: skip


class LabelledText(NamedTuple):
    label: str
    text: str


class Classifier(NamedTuple):
    """What is trained: texts, and the names of the place where they are written. `balanced`: each label weighs the same."""

    name: str
    list_texts: Callable[[], list[LabelledText]]
    build_vocabulary: Callable[[], Vocabulary]
    balanced: bool


def build_training_vocabulary() -> Vocabulary:
    """Return the names that the intents are trained with."""
    taxonomy, hosts = load_taxonomy(), tuple(expand_host_range("gpu-[001-064]"))
    titles = {label: taxonomy.get_title(label) for label in taxonomy.leaves}
    remedies = {remedy.id: remedy.does for remedy in REMEDIES.values()}
    return Vocabulary(hosts=hosts, groups={"train": hosts}, titles=titles, checks=tuple(CHECKS), remedies=remedies)


def compute_digest() -> str:
    """Return the digest of all phrases and settings."""
    settings = (
        BUCKETS, COMMON_FROM, PLAIN_FROM, INVERSE_REGULARISATION, MAX_ITERATIONS, TOLERANCE, MIN_WEIGHT, MAX_FRAMED_WORDS, _NAMES, _FRAMES, _FACTS, sorted(_NO_REQUESTS)
    )  # fmt: skip
    paths = sorted(PHRASES_FOLDER.glob("*/*.yaml"))
    files = [f"{path.parent.name}/{path.name}".encode() + b"\0" + path.read_bytes() for path in paths]
    return hashlib.sha256(b"\0".join([repr(settings).encode(), *files])).hexdigest()


def list_intent_texts() -> list[LabelledText]:
    """Return the phrases of every language, with names for their placeholders in turn."""
    # Beside a phrase of these, the frame's words would mean the same.
    return list(_list_phrases(INTENTS, frozenset({Intent.THANKS, Intent.SMALL_TALK})))


def list_tenant_texts() -> list[LabelledText]:
    """Return the requests of every language; as no requests those with facts, and the phrases of other intents."""
    own = list(_list_phrases(TENANT_REQUESTS, frozenset(), _FACTS))
    known = {row.text for row in own}
    others = (row.text for row in list_intent_texts() if row.label in _NO_REQUESTS)
    return [*own, *(LabelledText(NO_REQUEST, text) for text in others if text not in known)]


def _list_phrases(folder: str, alone: frozenset[str], facts: Mapping[str, Sequence[str]] | None = None) -> Iterator[LabelledText]:
    """Yield a classifier's phrases. `alone`: labels whose phrases get no frame. `facts`: what turns a request into none."""
    for path in sorted((PHRASES_FOLDER / folder).glob("*.yaml")):
        turns, frames = Counter[str](), _FRAMES[path.stem]
        name = partial(_choose_name, names={**_NAMES[""], **_NAMES.get(path.stem, {})}, turns=turns)
        for label, phrases in yaml.safe_load(path.read_text()).items():
            for phrase in phrases:
                yield LabelledText(label, _PLACEHOLDER.sub(name, phrase))
                if label not in alone and len(phrase.split()) <= MAX_FRAMED_WORDS:
                    turns["frame"] += 1
                    yield LabelledText(label, frames[turns["frame"] % len(frames)].replace("{}", _PLACEHOLDER.sub(name, phrase)))
                if facts and label != NO_REQUEST:
                    turns["fact"] += 1
                    told = facts[path.stem][turns["fact"] % len(facts[path.stem])].replace("{}", phrase.rstrip("?？.!！ "))
                    yield LabelledText(NO_REQUEST, _PLACEHOLDER.sub(name, told))


def _choose_name(found: re.Match[str], names: Mapping[str, str], turns: Counter[str]) -> str:
    turns[found[1]] += 1
    known = names[found[1]].split("|")
    return known[turns[found[1]] % len(known)]


CLASSIFIERS: Final[Mapping[str, Classifier]] = {
    row.name: row
    for row in (
        Classifier(INTENTS, list_intent_texts, build_training_vocabulary, balanced=False),
        Classifier(TENANT_REQUESTS, list_tenant_texts, Vocabulary, balanced=True),
    )
}


def parse_clauses(text: str, names: Vocabulary) -> list[Clause]:
    return split_clauses(expand_host_numbers(text, names.host_index), names, _NOW)


def list_common_words(texts: Sequence[LabelledText]) -> list[str]:
    """Return the words of at least `COMMON_FROM` phrases that ask for something, without names of people."""
    asking = [row.text for row in dict.fromkeys(texts) if row.label != Intent.NOT_UNDERSTOOD]
    counts = Counter(word for text in asking for word in _list_words(text))
    mentioned = {name for text in asking for name in _MENTIONED.findall(text)}
    called = {name for row in texts if row.label == Intent.NOT_UNDERSTOOD for name in _CALLED.findall(row.text)}
    people = {word for name in mentioned | called for word in normalize_words(name)}
    plain_counts = Counter(word for text in asking for word in set(text.split()) if word in people)  # In lower case and without an @.
    return sorted(
        word
        for word, count in counts.items()
        if word.isalpha() and (plain_counts[word] >= PLAIN_FROM if word in people else count >= COMMON_FROM)
    )


def _list_words(text: str) -> set[str]:
    return {word for sentence in split_sentences(text) for word in expand_abbreviations(sentence.words)}


def compute_training_features(texts: Sequence[LabelledText], names: Vocabulary) -> Any:
    """Return a sparse matrix, a row a text."""
    from scipy.sparse import csr_matrix

    rows = [compute_features(parse_clauses(row.text, names)) for row in texts]
    starts = np.cumsum([0, *map(len, rows)])
    columns, values = [column for row in rows for column in row], [value for row in rows for value in row.values()]
    return csr_matrix((values, columns, starts), shape=(len(rows), BUCKETS))


def train(texts: Sequence[LabelledText], features: Any, *, balanced: bool = False) -> dict[str, Any]:
    """Return the arrays of `Weights`. `features`: of the texts, as a sparse matrix."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(
        C=INVERSE_REGULARISATION, max_iter=MAX_ITERATIONS, tol=TOLERANCE, class_weight="balanced" if balanced else None
    )
    model.fit(features, [row.label for row in texts])
    scales = np.abs(model.coef_).max(axis=1) / 127
    weights = np.rint(model.coef_ / scales[:, None]).astype(np.int8).T
    weights[np.abs(weights) < MIN_WEIGHT] = 0
    return {
        "labels": np.array([str(name) for name in model.classes_]),
        "weights": weights,
        "scales": scales.astype(np.float32),
        "biases": model.intercept_.astype(np.float32),
        "digest": np.array(compute_digest()),
    }


def main() -> int:
    """Write the known words, then the weights of each classifier, whose features depend on those words."""
    KNOWN_WORDS_PATH.write_text("\n".join(list_common_words(list_intent_texts())) + "\n", encoding="utf-8")
    for row in CLASSIFIERS.values():
        texts = row.list_texts()
        features = compute_training_features(texts, row.build_vocabulary())
        np.savez_compressed(get_weights_path(row.name), **train(texts, features, balanced=row.balanced))
    return 0


if __name__ == "__main__":
    sys.exit(main())
