"""Baseline of a host: the state it should share with its peers, and parts that do not work. One probe, its rows and parser. May
import what the other checks import: the row, facts, kb."""

from tools.checks.baseline.rows import CHECKS, COMPARED_KINDS, NAME_VALUE_SEPARATOR

__all__ = ["CHECKS", "COMPARED_KINDS", "NAME_VALUE_SEPARATOR"]
