"""Tests of bot/: people write, click and read; behind them the real inbox, desk, ledger and cards on stand-ins of Slack and hosts."""
