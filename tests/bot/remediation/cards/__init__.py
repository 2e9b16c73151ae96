"""Approval cards and cards of several actions."""
