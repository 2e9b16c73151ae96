"""The hardest cases as readable stories: fault, ticket, visible evidence, the product's answer and why it was wrong or
right. Every sentence comes from results; no case is special-cased.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.case import SimulatedCase
from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.faults import FAULTS
from tests.bench.arms.table import ARMS
from tests.bench.case_files.lint import LOOKS, commands
from tests.bench.case_files.modifier_words import modifiers
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT, read_truth, table
from tests.bench.report.parts import whole_arms
from tests.bench.run.setup import world_seed
from tests.bench.run.work import scored_as
from tools.inventory.host_ranges import fold_host_names

Doc = Mapping[str, Any]
MOST, MOST_LINES, LONGEST = 10, 2, 150
PRODUCT = "B8"
_TROUBLE = re.compile(
    r"(?i)\b(?:error|err|fail\w*|warn\w*|xid|not|no|denied|refused|timed? ?out|killed|mismatch|slow\w*|disabled|inactive|down|full|fatal|lost)\b"
)


def case_row(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report's data of a case."""
    name = str(raw.get("id", "case"))
    case = parse_case(dict(raw), name)
    truth = read_truth(case.truth, name)
    return {
        "layer": scored_as(str(raw["layer"])),
        "faults": [row.fault for row in case.faults],
        "happened": [_happened(row.fault, row.nodes, row.gpus, row.at) for row in case.faults],
        "modifiers": list(raw.get("modifiers") or ()),
        "nodes": len(case.nodes),
        "profile": case.profile,
        "ticket": case.ticket.text,
        "blames": case.ticket.blames,
        "labels": [row.label for row in truth.culprits],
        "secondary": list(truth.secondary_ok),
        "unseen": bool(truth.removed),
        "hosts": sorted(truth.hosts),
        "path": list(truth.causal_path),
        "shows": list(dict.fromkeys(check for check, _ in truth.proofs)),
        "remedy": list(truth.remediation.correct),
    }


def _happened(fault: str, nodes: Sequence[str], gpus: Sequence[int], at: float) -> dict[str, Any]:
    row = FAULTS[fault]
    return {"id": fault, "title": row.title, "scope": row.scope, "nodes": list(nodes), "gpus": list(gpus), "minutes": round(-at / 60)}


def hardest(doc: Doc, most: int = MOST) -> list[str]:
    """Return cases that most checking arms get wrong, the product's errors first, each fault once before any twice."""
    marks = {name: {row["case"]: row["right"] for row in arm["per_case"]} for name, arm in whole_arms(doc).items() if ARMS[name].looks}
    wrong = {case: [name for name, rows in marks.items() if not rows.get(case, True)] for case in doc["case_rows"]}
    order = sorted((case for case in wrong if wrong[case]), key=lambda case: (PRODUCT not in wrong[case], -len(wrong[case]), case))
    kinds: dict[tuple[str, ...], list[str]] = {}
    for case in order:
        kinds.setdefault(tuple(doc["case_rows"][case]["faults"]), []).append(case)
    turns = range(max(map(len, kinds.values()), default=0))
    return [case for turn in turns for some in kinds.values() for case in some[turn : turn + 1]][:most]


def traces(raw: Mapping[str, Any]) -> list[str]:
    """Return output lines that exist only with the faults, by the checks that show them."""
    case = parse_case(dict(raw), str(raw.get("id", "case")))
    well = replace(case, faults=())
    found: dict[str, None] = {}
    for row in case.faults:
        for host in row.nodes[:2]:
            for check in table()[row.fault].shows:
                found |= dict.fromkeys(f"`{check}` on {host}: {line}" for line in _lines(case, well, host, check))
    return list(found)[:8]


def _lines(case: SimulatedCase, well: SimulatedCase, host: str, check: str) -> list[str]:
    sick, calm = (Cluster.from_case(one, world_seed(case, 0)) for one in (case, well))
    if not sick.reachable(host):
        return ["the machine does not answer at all"]
    for argv in commands((check,)):
        usual = calm.answer(host, argv)
        known = set(usual.stdout.decode("utf-8", "replace").splitlines())
        for answer in (sick.answer(host, argv) for _ in range(LOOKS)):
            if answer.hangs and not usual.hangs:
                return ["the command hangs"]
            new = [line.strip() for line in answer.stdout.decode("utf-8", "replace").splitlines() if line.strip() and line not in known]
            if new:
                telling = sorted(new, key=lambda line: not _TROUBLE.search(line))  # stable sort: complaints first, otherwise in order
                return [f"`{line[:LONGEST].replace('`', chr(39))}`" for line in telling[:MOST_LINES]]
    return []


def told(doc: Doc) -> str:
    rows = [_story(doc, case, n) for n, case in enumerate(hardest(doc), 1)]
    if not rows:
        return ""
    words = (
        "Cases that most arms that look got wrong, the product's errors first. *There to see* is what the cluster prints that it would not print "
        "without the fault; a solver that asks the right thing in time can read it."
    )
    return f"## The {len(rows)} hardest cases, told\n\n{words}\n\n" + "\n\n".join(rows)


def _story(doc: Doc, case: str, n: int) -> str:
    row = doc["case_rows"][case]
    answers = {name: one for name, arm in whole_arms(doc).items() for one in arm["per_case"] if one["case"] == case}
    mine = answers.get(PRODUCT)
    seen = doc.get("traces", {}).get(case, [])
    parts = [
        f"### {n}. {case} ({row['layer']}): {_title(row)}",
        f"**What was broken.** {_broken(row)}",
        f"**What the ticket said.** “{' '.join(row['ticket'].split())}”{_blaming(row)}",
        f"**In the way.** {modifiers(row['modifiers']) or 'Nothing'}.",
        f"**There to see.** {'; '.join(seen) or 'Nothing that the checks for it print'}.",
    ]
    if mine:
        parts += [f"**What RackMedic did.** {_did(mine)}", f"**{'Right' if mine['right'] else 'Wrong'}, because** {_why(row, mine)}"]
    others = [f"{name} {'right' if one['right'] else 'wrong'}" for name, one in answers.items() if name != PRODUCT and ARMS[name].looks]
    return "\n\n".join([*parts, f"Others that looked: {', '.join(others) or 'none'}."])


def _title(row: Mapping[str, Any]) -> str:
    return " and ".join(one["title"] for one in row["happened"]) or "nothing is broken"


def _broken(row: Mapping[str, Any]) -> str:
    if not row["happened"]:
        return f"Nothing. {row['nodes']} machines of kind {row['profile']} are healthy."
    said = []
    for one in row["happened"]:
        gpus = f", GPU {', '.join(map(str, one['gpus']))}" if one["gpus"] else ""
        where = (
            f"on {fold_host_names(one['nodes'])}{gpus}"
            if one["scope"] in ("gpu", "node", "rack")
            else f"in the {one['scope']} on {fold_host_names(one['nodes'])}"
        )
        said.append(f"{one['minutes']} minutes before the ticket, {where}: {one['title']} ({one['id']}).")
    end = f" What followed: {row['path'][-1]}." if row["path"] else ""
    label = f" The label is {' + '.join(row['labels'])}" + (", and the solver has never heard of it." if row["unseen"] else ".")
    return " ".join(said) + end + label


def _blaming(row: Mapping[str, Any]) -> str:
    return f" It blames {row['blames']}, which is innocent." if row["blames"] else ""


def _did(mine: Mapping[str, Any]) -> str:
    account = mine.get("account") or {}
    blind = account.get("could_not_look", ())
    said = [f"{mine['checks']} looks in {mine['makespan']:.0f} s, then: {', '.join(mine['labels'])}."]
    said += [f"In its words: “{_short(account['says'])}”"] if account.get("says") else []
    said += [f"It could not look: {'; '.join(_short(line, 90) for line in blind[:3])}."] if blind else []
    said += [f"It read: {'; '.join(_short(line) for line in account['saw'][:2])}."] if account.get("saw") else []
    return " ".join(said)


def _why(row: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """Return the reason for a right or wrong answer, by its kind."""
    named, true = set(mine["labels"]), set(row["labels"])
    if mine["right"]:
        return _why_right(row, mine)
    if row["unseen"]:
        return f"the label is unknown to it, and it named {_list(named)}, which reads the same evidence another way."
    if named == {NO_FAULT}:
        return f"it took the machines for healthy: nothing that it could read was abnormal.{_hidden(row)}"
    if named == {ABSTAIN}:
        return _why_silent(true, mine) + _hidden(row)
    if true == {NO_FAULT}:
        return f"nothing was broken, and it accused {_list(named)}."
    missed, extra = true - named, named - true - set(row["secondary"])
    said = [f"it found {_list(true & named)}"] if true & named else []
    said += [f"it missed {_list(missed)}"] if missed else []
    said += [f"it named {_list(extra)}{_kin(extra, missed)}"] if extra else []
    return ", ".join(said) + "." + _hidden(row)


def _why_right(row: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    if set(mine["labels"]) == {ABSTAIN}:
        return "it does not know the label, and said so in place of the next best one."
    return "what decides was read on the machine itself" + (" and the ticket's blame was not." if row["blames"] else ".")


def _why_silent(true: set[str], mine: Mapping[str, Any]) -> str:
    suspected = (mine.get("account") or {}).get("suspected", ())
    own = next((line for line in suspected if line.partition(" ")[0] in true), "")
    if own:
        return f"it had the cause in mind and would not claim it: {_short(own, 260)}. Likely is not proven; that costs the point and spares a wrong repair."
    if suspected:
        return f"it held something else likelier, {_short(suspected[0], 200)}, and claimed nothing."
    return "nothing that it read pointed at the cause."


def _hidden(row: Mapping[str, Any]) -> str:
    spoilt = [text for text in row["modifiers"] if text.startswith(("R6", "R9", "R11", "R12"))]
    return f" Of what shows it ({', '.join(row['shows'])}), a part was hidden: {modifiers(spoilt)}." if spoilt else ""


def _kin(extra: set[str], missed: set[str]) -> str:
    near = any(one.rpartition(".")[0] == other.rpartition(".")[0] for one in extra for other in missed)
    return ", a neighbour of the truth" if near else ""


def _list(labels: set[str]) -> str:
    return " and ".join(sorted(labels))


def _short(text: str, most: int = LONGEST + 40) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
