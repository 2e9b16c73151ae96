"""Baseline of a host: the state it should share with its peers, and parts that do not work."""

from tools.checks.baseline.rows import CHECKS, COMPARED_KINDS, NAME_VALUE_SEPARATOR

__all__ = ["CHECKS", "COMPARED_KINDS", "NAME_VALUE_SEPARATOR"]
