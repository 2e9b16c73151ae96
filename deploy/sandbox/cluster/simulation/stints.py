"""The job's runs: each starts at first or by a deed, and ends by a fault, by a deed, or not yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines import training
from deploy.sandbox.cluster.machines.lines import Job
from deploy.sandbox.cluster.plan import Deed, Happening, Plan

HOUR = 3600.0
START_SECONDS = 45.0  # a job that never starts was launched this many seconds before the fault showed

FATAL = ("never starts", "dies", "hangs")


@dataclass(frozen=True, slots=True)
class Stint:
    """One run. Faults with `first` to `last` earlier deeds affected it."""

    job: Job
    first: int
    last: int
    trained: bool


def stints(plan: Plan) -> list[Stint]:
    """Return every run, the current one last."""
    begins = [0, *(i + 1 for i, deed in enumerate(plan.deeds) if deed.what == "job")]
    ends = [*(begin - 1 for begin in begins[1:]), len(plan.deeds)]
    return [_stint(plan, run, begin, end) for run, (begin, end) in enumerate(zip(begins, ends, strict=True))]


def job_met(happening: Happening, plan: Plan, runs: Sequence[Stint]) -> Job:
    """Return the run that a fault affected; a discarded one if none was active."""
    for run in runs:
        if run.first <= happening.after <= run.last:
            return run.job
    return training.new_job(plan.names, plan.seed, started=happening.at, ended=happening.at)


def ends_job(deed: Deed, plan: Plan) -> bool:
    """Return whether a deed ends the job."""
    return deed.what == "cancel" or (deed.what == "down" and deed.node in plan.names) or bool(deed.args.get("ends_job"))


def _stint(plan: Plan, run: int, begin: int, end: int) -> Stint:
    stop = next((i for i in range(begin, end) if ends_job(plan.deeds[i], plan)), None)
    last = end if stop is None else stop
    met = [h for h in plan.happenings if begin <= h.after <= last]
    fate, at = _fate(met)
    long_ago = at - START_SECONDS if fate == "never starts" else min(-3 * HOUR - plan.age, at - HOUR / 2)
    started = plan.deeds[begin - 1].at - START_SECONDS if run else long_ago
    ended = at if fate in ("dies", "never starts") else None
    stopped = stop is not None and (ended is None or plan.deeds[stop].at < ended)
    if stop is not None and stopped:
        ended = plan.deeds[stop].at
    job = training.new_job(plan.names, plan.seed, started=started, ended=ended, run=run)
    job.id = plan.job or training.new_job(plan.names, plan.seed, started=started, ended=ended).id
    job.silent_from = at if fate == "hangs" else None
    job.stopped = stopped
    _slow(job, met)
    return Stint(job, begin, last, fate != "never starts")


def _fate(met: Sequence[Happening]) -> tuple[str, float]:
    """Return the fate and end time of a run: of the fault that ended it first."""
    ends = [(h.at, FAULTS[h.fault].job) for h in met if FAULTS[h.fault].job in FATAL]
    at, fate = min(ends, default=(0.0, "runs"))
    return fate, at


def _slow(job: Job, met: Sequence[Happening]) -> None:
    slow = [h for h in met if FAULTS[h.fault].job == "slows"]
    if slow:
        job.slow_from = min(h.at for h in slow)
        job.slow_factor = 1.9
        mended = [h.ended for h in slow if h.ended is not None]
        job.slow_until = max(mended) if len(mended) == len(slow) else None
