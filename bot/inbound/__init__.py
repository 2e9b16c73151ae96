"""What comes in over HTTP, as values: a request, its answer, a room's routes, and the signatures of those who send. Pure: of `bot` it imports
nothing, and `bot.run` serves what rooms put together from it.
"""
