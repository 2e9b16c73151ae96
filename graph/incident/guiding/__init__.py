"""Guides in a turn: their checks come first, their steps are shown beside the diagnosis."""
