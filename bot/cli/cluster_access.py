"""The site's hosts, or a case's simulated cluster."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from bot.app.diagnosis_runtime import DiagnosisRuntime, open_diagnosis_runtime
from bot.cli.command_runtime import print_text
from bot.refusal import Refusal
from bot.settings import Settings

if TYPE_CHECKING:
    from deploy.sandbox.cluster.access.case_run import CaseRun

NO_INVENTORY_TEXT = (
    "no inventory is set, so no host is known: give one with -i FILE, or in RACKMEDIC_INVENTORY; `rackmedic init` writes one, "
    "--sandbox FILE plays a case without"
)


@contextlib.asynccontextmanager
async def open_command_runtime(settings: Settings, inventory: Path | None, stage: "CaseRun | None") -> AsyncIterator[DiagnosisRuntime]:
    """Open the runtime of the site, or of a simulated case."""
    if stage is None:
        opened = open_diagnosis_runtime(replace_inventory(settings, inventory))
    else:
        opened = open_diagnosis_runtime(settings, transport=stage.transport, inventory=stage.inventory, clock=stage.clock)
    async with opened as runtime:
        yield runtime


def has_no_inventory(settings: Settings, inventory: Path | None, case: Path | None) -> bool:
    return inventory is None and case is None and settings.inventory is None


def warn_without_inventory(settings: Settings, inventory: Path | None, case: Path | None) -> None:
    if has_no_inventory(settings, inventory, case):
        print_text(f"rackmedic: {NO_INVENTORY_TEXT}; only what was written is read", err=True)


def refuse_without_inventory(settings: Settings, inventory: Path | None, case: Path | None) -> None:
    """Raise one Refusal instead of one per host."""
    if has_no_inventory(settings, inventory, case):
        raise Refusal(NO_INVENTORY_TEXT, 2)


def open_stage(case: Path | None) -> "CaseRun | None":
    """Open a case. The sandbox is imported only here, as it may be absent."""
    if case is None:
        return None
    try:
        from deploy.sandbox.cluster.access.case_run import load_case_run
        from deploy.sandbox.cluster.cases.reader import BadCase
    except ModuleNotFoundError as error:
        raise Refusal(f"--sandbox needs the sandbox, which is not installed here ({error.name})", 2) from error
    try:
        return load_case_run(case)
    except BadCase as error:
        raise Refusal("\n".join([f"--sandbox: {error.source} is no usable case:", *error.problems]), 2) from error


def replace_inventory(settings: Settings, path: Path | None) -> Settings:
    return settings.model_copy(update={"inventory": path}) if path else settings
