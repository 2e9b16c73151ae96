"""`python -m bot.cli`: the same as `rackmedic`."""

from bot.cli.main import main

main()
