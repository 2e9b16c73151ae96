"""Read case files strictly, naming file, field and reason of every problem, and normalise them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bot.refusal import Refusal
from deploy.sandbox.cluster.cases.reader import BadCase, parse_case
from kb.yaml_files import load_plain
from tests.bench.case_files.swaps import BadSwap, resolved
from tests.bench.case_files.truth import OUTSIDE, BadTruth, read_truth

Raw = dict[str, Any]


def case_files(folder: Path) -> list[Path]:
    """Return the case files of a folder, or the one file."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml"))
    if not files:
        raise Refusal(f"{folder}: no case file (*.yaml) there; make some with `rackmedic bench new-case`", 2)
    return files


def read_folder(folder: Path) -> list[Mapping[str, Any]]:
    """Return every case of a folder. Raises Refusal with all problems."""
    found, bad = list[Mapping[str, Any]](), list[str]()
    names: dict[str, Path] = {}
    for path in case_files(folder):
        try:
            raw = read_case(path)
        except Refusal as error:
            bad.append(str(error))
            continue
        name = str(raw["id"])
        if name in names:  # files in different folders may share a name
            raw["id"] = name = f"{name}@{path.relative_to(folder).with_suffix('')}"
        names[name] = path
        found.append(raw)
    if bad:
        raise Refusal("\n".join(["--cases: not every case can be run and marked:", *bad]), 2)
    return found


def read_case(path: Path) -> Raw:
    """Return one case in the shape of a generated one. Raises Refusal if it cannot be simulated or marked."""
    try:
        raw = load_plain(path.read_text())
    except OSError as error:
        raise Refusal(f"{path}: cannot be read: {error.strerror}", 2) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: is not YAML: {' '.join(str(error).split())}", 2) from error
    if not isinstance(raw, dict):
        raise Refusal(f"{path}: is no case; it must be a mapping", 2)
    if not isinstance(raw.get("layer") or "", str):
        raise Refusal(f"{path}: layer: must be text, for example hard", 2)
    try:
        raw = resolved(raw, str(path))
        case = parse_case(raw, str(path), default_id=path.stem)
        read_truth(case.truth, str(path))
    except (BadCase, BadTruth, BadSwap) as error:
        raise Refusal(str(error), 2) from error
    ticket: Raw = {"channel": case.ticket.channel, "author": case.ticket.author, "text": case.ticket.text, "blames": case.ticket.blames}
    ticket |= {"attachments": [{"name": row.name, "text": row.text} for row in case.ticket.attachments]} if case.ticket.attachments else {}
    return {
        **raw,
        "id": case.id,
        "profile": case.profile,
        "nodes": list(case.nodes),
        "layer": str(raw.get("layer") or "hard"),
        "ticket": ticket,
        "faults": raw.get("faults") or [],
        "modifiers": raw.get("modifiers") or [],
        "truth": _truth(case.layer, dict(case.truth)),
    }


def _truth(layer: str, truth: Raw) -> Raw:
    """Add the labels that the solver must not know if the case omits them: all in layer `unseen`, and those outside
    every taxonomy.
    """
    labels = [truth["primary"]["label"], *(row["label"] for row in truth.get("also") or ())]
    unknown = labels if layer == "unseen" else [label for label in labels if label == OUTSIDE]
    return truth | ({"removed": unknown} if unknown and not truth.get("removed") else {})
