"""Tests of bot/: the real inbox, dispatcher, ledger and cards, over stand-ins for Slack and the hosts."""
