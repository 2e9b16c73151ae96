"""What a host looks like in all that its peers are like too, and what does not work on it: one probe, its rows, and how they are read. May
import what the other checks import: the row, facts, kb."""

from tools.checks.baseline.rows import CHECKS, COMPARED_KINDS, NAME_VALUE_SEPARATOR

__all__ = ["CHECKS", "COMPARED_KINDS", "NAME_VALUE_SEPARATOR"]
