"""The `rackmedic bench …` commands. Refusals name the option and the fix; results go to files, progress to stderr."""

import hashlib
import json
import os
import platform
import random
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from bot.refusal import Refusal
from bot.settings import Settings
from deploy.sandbox.cluster.faults import FAULTS
from graph.model.recording import BadRecording
from tests.bench import gates as gating
from tests.bench.arms.external import NoSuchArm, is_outside
from tests.bench.arms.table import ARMS, BASELINES, GROUPS
from tests.bench.case_files.folder import case_files, read_case, read_folder
from tests.bench.case_files.generate import LAYERS, as_yaml, cases
from tests.bench.case_files.lint import problems
from tests.bench.case_files.wild import wild_cases
from tests.bench.model.endpoint import Access
from tests.bench.model.recording import begin, read_recording
from tests.bench.published.incidents import measure
from tests.bench.questions.report import section as of_questions
from tests.bench.report import document as reports
from tests.bench.report.tables import SEED_LAYERS
from tests.bench.run.plan import Plan
from tests.bench.run.run import Teller, run
from tests.bench.run.run import names as arm_names

HERE = Path(__file__).parent
SEAL = gating.SEAL
WRITTEN = "wild"  # the handwritten layer, without seeds
OURS = "B8"  # RackMedic without a model
SECOND_SEED = "2"  # second row in the report's table of seeds; the third seed is drawn
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of `bench run`. `layer`: one, several with commas, or `all`; `cases`: a folder of files instead.

    `draw`: so many cases of each layer, drawn by the seed; `n`: the first ones.
    """

    out: Path
    cases: Path | None = None
    layer: str = ""
    n: int | None = None
    draw: int | None = None
    arms: str = "free"
    seed: str = "1"
    seed_file: Path | None = None
    attempts: int = 1
    jobs: int = 1
    transport: str = "inprocess"
    permute: int | None = None
    record: Path | None = None
    replay: Path | None = None
    loop: str = ""
    bots: int = 1
    command: str = ""
    kb: Path | None = None


def run_bench(settings: Settings, wanted: Wanted, say: Say) -> dict[str, Any]:
    """Run, write the results, and print a summary."""
    if wanted.kb and not wanted.kb.is_dir():
        raise Refusal(f"--kb {wanted.kb}: there is no such folder", 2)
    if wanted.transport not in ("inprocess", "ssh"):
        raise Refusal(f"--transport {wanted.transport}: it is inprocess or ssh", 2)
    _folder(wanted.out, "--json")
    seed, split = _seed(wanted)
    raws = read_folder(wanted.cases) if wanted.cases else _generated(wanted, seed, split)
    shown = f"sealed:{hashlib.sha256(seed.encode()).hexdigest()[:12]}" if split == "sealed" else seed
    notes = {
        "split": split,
        "layers": sorted({str(raw["layer"]) for raw in raws}),
        "version": _version(),
        "command": wanted.command,
        "environment": environment(),
    }
    if wanted.loop:
        return _played(raws, wanted, {"seed": shown, **notes}, say)
    plan = Plan(
        raws,
        _arms(wanted.arms),
        shown,
        max(1, wanted.attempts),
        max(1, wanted.jobs),
        wanted.transport,
        access(settings, wanted.record, wanted.replay),
        wanted.permute,
        notes,
        wanted.kb,
    )
    return run(plan, wanted.out, Teller(say))


def _played(raws: list[Mapping[str, Any]], wanted: Wanted, notes: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """Run the closed loop instead of arms."""
    from tests.bench.loop.run import document  # imports the whole bot

    return document(raws, wanted.loop, max(1, wanted.bots), max(1, wanted.attempts), max(1, wanted.jobs), wanted.out, notes, say)


def access(settings: Settings, record: Path | None = None, replay: Path | None = None) -> Access | None:
    """Return the settings' model endpoint, or a recording."""
    if replay and record:
        raise Refusal("--record and --replay: what is replayed is recorded already; name one", 2)
    if replay:
        digest = hashlib.sha256(replay.read_bytes()).hexdigest() if replay.is_file() else ""
        return Access("", "", read_recording(replay).model, replay=replay.resolve(), tape=digest)
    key = settings.model_api_key.get_secret_value()
    if not (settings.model_url or key):
        if record:
            raise Refusal("--record: there is no model to record; set RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI", 2)
        return None
    if record:
        begin(record, settings.model_name)
    return Access(settings.model_url, key, settings.model_name, settings.model_seconds, record.resolve() if record else None)


def right_with(kb: Path | None, n: int | None, say: Say) -> dict[str, bool]:
    """Return each open case with whether RackMedic solves it with this site knowledge. `n`: cases per layer."""
    raws = [raw for layer in LAYERS for raw in cases(layer, "1", n, "open")]
    with tempfile.TemporaryDirectory(prefix="rackmedic-bench-") as folder:
        plan = Plan(raws, (OURS,), "1", jobs=os.cpu_count() or 1, kb=kb)
        results = run(plan, Path(folder) / "results.json", Teller(say))
    return {row["case"]: row["right"] for row in results["arms"][OURS]["per_case"]}


def environment() -> dict[str, str]:
    """Return the machine that timings belong to."""
    try:
        rows = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        rows = []
    return {
        "cpu": rows[0] if rows else platform.processor() or platform.machine(),
        "cores": f"{os.cpu_count()} cores",
        "python": f"Python {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _version() -> str:
    return metadata.version("rackmedic")


def _arms(text: str) -> tuple[str, ...]:
    found = arm_names(text)
    unknown = [name for name in found if name not in ARMS and not is_outside(name)]
    if unknown:
        raise Refusal(f"--arms: there is no {', '.join(unknown)}; there are {', '.join((*ARMS, *GROUPS))} and FILE.py:CLASS", 2)
    try:
        return tuple(name for name in found if ARMS[name])
    except NoSuchArm as error:
        raise Refusal(f"--arms {error}", 2) from error


def _seed(wanted: Wanted) -> tuple[str, str]:
    """Return seed and split. The sealed seed is known only by its digest."""
    if wanted.seed_file is None:
        return wanted.seed, "open"
    try:
        seed = wanted.seed_file.read_text().strip()
    except OSError as error:
        raise Refusal(f"--seed-file {wanted.seed_file}: {error.strerror}", 2) from error
    if hashlib.sha256(seed.encode()).hexdigest() not in SEAL.read_text().split():
        raise Refusal(f"--seed-file: its SHA-256 is not in {SEAL.name}; an open seed is given with --seed", 2)
    return seed, "sealed"


def _generated(wanted: Wanted, seed: str, split: str) -> list[Mapping[str, Any]]:
    there = [*LAYERS, *([WRITTEN] if split == "open" else [])]
    layers = there if wanted.layer in ("", "all") else wanted.layer.split(",")
    unknown = [layer for layer in layers if layer not in there]
    if unknown:
        raise Refusal(f"--layer: there is no {', '.join(unknown)}; there are {', '.join(there)} and `all`", 2)
    by_layer = {layer: list(wild_cases(wanted.n) if layer == WRITTEN else cases(layer, seed, wanted.n, split)) for layer in layers}
    drawn = by_layer if wanted.draw is None else draw_sample(by_layer, wanted.draw, seed)
    return [raw for layer in layers for raw in drawn[layer]]


def draw_sample(by_layer: Mapping[str, Sequence[Mapping[str, Any]]], size: int, seed: str) -> dict[str, list[Mapping[str, Any]]]:
    """Draw `size` cases of each layer by the seed, in the order of their ids; a smaller layer is taken whole."""
    roll = random.Random(seed)
    return {
        layer: sorted(roll.sample(list(raws), min(size, len(raws))), key=lambda raw: str(raw["id"]))
        for layer, raws in sorted(by_layer.items(), reverse=True)
    }


def lint(folder: Path, say: Say) -> int:
    """Return the number of problems in a folder's cases."""
    files = case_files(folder)
    found = [problem for path in files for problem in _wrong(path)]
    for line in found:
        say(line)
    say(f"{len(files)} case(s), {len(found)} problem(s)")
    return len(found)


def _wrong(path: Path) -> list[str]:
    try:
        return [f"{path}: {problem}" for problem in problems(read_case(path))]
    except Refusal as error:
        return [str(error)]


def _by_layers(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the plays of several runs by layers: `loop:yes@hard`."""
    docs = [read_results(path) for path in paths]
    return {f"{name}@{'+'.join(doc.get('layers') or ())}": row for doc in docs for name, row in doc["loop"].items()}


def write_report(
    results: Path,
    out: Path,
    made_by: str = "",
    *,
    texts: bool = False,
    gates: Path | None = None,
    loops: Sequence[Path] = (),
    seeds: Sequence[Path] = (),
) -> list[Path]:
    """Write REPORT.md and pictures: results, gates, plays, other seeds, and with `texts` published incidents."""
    doc = read_results(results)
    _folder(out, "--out")
    doc |= {"incidents": measure(), "questions": _questions()} if texts else {}
    doc |= {"gates": read_results(gates)["gates"]} if gates else {}
    doc |= {"loop": {**(doc.get("loop") or {}), **_by_layers(loops)}} if loops else {}
    doc |= {"seeds": [read_results(path) for path in seeds]} if seeds else {}
    try:
        pictures = reports.draw(doc, out.parent / "pictures") if doc["arms"] else []
        text = reports.markdown(doc, made_by)
    except NoSuchArm as error:
        raise Refusal(f"{results}: {error}; run the report where the arm is", 2) from error
    shown = "\n".join(f"![{path.stem}](pictures/{path.name})" for path in pictures)
    out.write_text(f"{text}\n{shown}\n")
    return [out, *pictures]


def _questions() -> dict[str, Any]:
    from tests.bench.questions.run import measure  # imports the Slack surface

    return measure()


def ask_questions(settings: Settings, record: Path | None, replay: Path | None, out: Path | None, say: Say) -> str:
    """Compute metrics A, B and C over all questions; write them to `out` and return the report section."""
    from tests.bench.questions.run import RECORDED, ask_now, measure  # imports the Slack surface

    model = _line(settings, record, replay)
    try:
        fresh = ask_now(model, record, say) if model and record else None
        doc = measure(replay or RECORDED, fresh=fresh)
    except BadRecording as error:
        raise Refusal(str(error), 2) from error
    if out:
        _folder(out, "--json")
        out.write_text(json.dumps(doc, indent=1) + "\n")
    return of_questions({"questions": doc})


def play_dialogue(
    settings: Settings,
    record: Path | None,
    replay: Path | None,
    out: Path | None,
    say: Say,
    *,
    model: bool,
    held_out: bool,
    only: str,
    jobs: int,
) -> str:
    """Play messages in incidents' threads and return the table of marks. `only`: situations, with commas."""
    from tests.bench.dialogue.run import Dialogue, run_dialogue  # imports the whole bot

    asked = access(settings, record, replay) if model or record or replay else None
    if model and asked is None:
        raise Refusal("--model: there is no model; set RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI", 2)
    wanted = Dialogue(held_out, tuple(filter(None, only.split(","))), max(1, jobs), asked, out)
    return run_dialogue(wanted, say)


def _line(settings: Settings, record: Path | None, replay: Path | None) -> Access | None:
    """Return the endpoint to record, if any."""
    if replay and record:
        raise Refusal("--record and --replay: what is replayed is recorded already; name one", 2)
    if replay and not replay.is_file():
        raise Refusal(f"--replay {replay}: there is no such recording", 2)
    key = settings.model_api_key.get_secret_value()
    if record and not (settings.model_url or key):
        raise Refusal("--record: there is no model to record; set RACKMEDIC_MODEL_URL, or RACKMEDIC_MODEL_API_KEY for OpenAI", 2)
    return Access(settings.model_url, key, settings.model_name, settings.model_seconds, record) if record else None


def try_gates(seed: str, n: int | None, jobs: int, out: Path | None, progress: Say, say: Say, *, anew: bool = False) -> bool:
    """Print every gate and return whether all hold."""
    found = gating.everything(seed, jobs, progress, n, anew=anew)
    for gate in found:
        say(f"{'held' if gate.held else 'BROKEN':7}{gate.name}: {gate.measured} ({gate.limit}); {gate.says}")
    if out:
        out.write_text(json.dumps({"schema": 1, "gates": [gate.plain() for gate in found]}, indent=1) + "\n")
    return all(gate.held for gate in found)


@dataclass(frozen=True, slots=True)
class Publishing:
    """Options of `bench publish`."""

    out: Path
    seed: str = "1"
    n: int | None = None
    jobs: int = 2
    loop: str = ""
    work: Path = Path("out/publish")

    @property
    def command(self) -> str:
        """Return the command that reproduces the report."""
        more = [f"--seed {self.seed}"] if self.seed != "1" else []
        more += [f"--n {self.n}"] if self.n else []
        more += [f"--loop {self.loop}"] if self.loop else []
        return " ".join(["rackmedic bench publish", *more])


def publish(settings: Settings, wanted: Publishing, say: Say) -> list[Path]:
    """Produce everything in the report. Finished parts are not repeated."""
    wanted.work.mkdir(parents=True, exist_ok=True)
    results, gates, played = (wanted.work / name for name in ("results.json", "gates.json", "loop.json"))
    many = Wanted(results, layer="all", n=wanted.n, arms=",".join(BASELINES), seed=wanted.seed, jobs=wanted.jobs, command=wanted.command)
    say("arms")
    run_bench(settings, many, say)
    drawn = wanted.work / "drawn-seed"  # kept so that an interrupted run continues with the same cases
    if not drawn.exists():
        drawn.write_text(secrets.token_hex(4))
    others = []
    for seed in (SECOND_SEED, drawn.read_text()):
        say(f"seed {seed}")
        others.append(wanted.work / f"seed-{seed}.json")
        run_bench(settings, replace(many, out=others[-1], layer=",".join(SEED_LAYERS), arms=OURS, seed=seed), say)
    say("gates")
    try_gates(wanted.seed, wanted.n, wanted.jobs, gates, say, say)
    if wanted.loop:
        say("closed loop")
        run_bench(settings, replace(many, out=played, layer="hard,composite", loop=wanted.loop), say)
    return write_report(results, wanted.out, texts=True, gates=gates, loops=[played] if wanted.loop else [], seeds=others)


def read_results(path: Path) -> dict[str, Any]:
    """Return the results of `bench run`."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Refusal(f"{path}: is no result of `rackmedic bench run`: {error}", 2) from error
    if not isinstance(found, dict) or found.get("schema") != 1:
        raise Refusal(f"{path}: is no result of `rackmedic bench run` (schema 1)", 2)
    return found


def new_case(out: Path, layer: str, seed: str, fault: str = "") -> Path:
    """Write one generated case of a layer, optionally of a fault, as a file to edit."""
    if layer not in LAYERS:
        raise Refusal(f"--layer: there is no {layer}; there are {', '.join(LAYERS)}", 2)
    if fault and fault not in FAULTS:
        raise Refusal(f"--fault: there is no {fault}; there are {', '.join(sorted(FAULTS))}", 2)
    if out.exists():
        raise Refusal(f"{out}: is there already", 2)
    raws = cases(layer, seed, 400 if fault else 1)
    raw = next((one for one in raws if not fault or fault in [row["id"] for row in one["faults"]]), None)
    if raw is None:
        raise Refusal(f"--fault {fault}: layer {layer} has no case of it", 2)
    _folder(out, "OUT")
    out.write_text(as_yaml(raw | {"id": out.stem}))
    return out


def _folder(out: Path, option: str) -> None:
    """Create the file's folder if missing."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal(f"{option} {out}: {out.parent} cannot be made: {error.strerror}", 2) from error
