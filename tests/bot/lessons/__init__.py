"""Lessons: drafted, decided and retired."""
