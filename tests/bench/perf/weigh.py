"""Cost of assessing a wave: facts of every check on many hosts against all leaves.

`python -m tests.bench.perf.weigh [--hosts 10,100,1000]`: prints one JSON document, CPU seconds. Linear if the
milliseconds per host stay constant.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from graph.engine.assessment import assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.samples_checks import SAMPLES
from tools.checks import CHECKS
from tools.fact import Fact


def facts_of_a_host() -> list[Fact]:
    """Return the facts of one host: the first sample of each check."""
    read = (CHECKS[check].parse_output(outputs[0]) for check, outputs in SAMPLES.items() if check in CHECKS)
    return [fact.locate("n", time=T0) for facts in read for fact in facts]


def seconds(facts: Sequence[Fact], lens: ReferenceData, names: Sequence[str]) -> float:
    """Return the least CPU seconds of three runs."""
    least = float("inf")
    for _ in range(3):
        began = time.thread_time()
        assess_facts(facts, lens, names)
        least = min(least, time.thread_time() - began)
    return least


def measure(hosts: Sequence[int]) -> dict[str, object]:
    lens, one = ReferenceData(load_taxonomy(), CHECKS), facts_of_a_host()
    rows = []
    for count in hosts:
        names = tuple(f"n{number}" for number in range(count))
        spent = seconds([replace(fact, host=name) for name in names for fact in one], lens, names)
        rows.append({"hosts": count, "seconds": round(spent, 3), "milliseconds_a_host": round(1000 * spent / count, 2)})
    return {"schema": 1, "load": os.getloadavg()[0], "facts_a_host": len(one), "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", default="10,100,1000")
    sys.stdout.write(json.dumps(measure([int(count) for count in parser.parse_args().hosts.split(",")]), indent=1) + "\n")
