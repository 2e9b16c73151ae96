"""The version of all stored data: every Redis key, and the evidence folder."""

from redis.asyncio import Redis

from bot.store.keys import FIXED_KEYS, VERSION_KEY
from tools.ledger.redis_replies import decode_text

STORE_VERSION = 2  # raise it with every change of what is stored or how it is read
PREVIOUS_STORE_VERSION = 1
# Rows of this version are read unchanged: missing fields (owner of a job's log, unknown names in a file, brakes in an audit entry)
# have neutral defaults. Processes of that version refuse the store from then on.

CLAIM_VERSION_SCRIPT = """
local version = redis.call('GET', KEYS[1])
if version and version ~= ARGV[2] then return version end
if version then
  redis.call('SET', KEYS[1], ARGV[1])
  return ARGV[1]
end
if redis.call('EXISTS', unpack(KEYS, 2)) > 0 then return '' end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
"""
# KEYS: the version, then FIXED_KEYS, which show whether there is data.
# One script, so that two processes that start on an empty store both succeed.


async def claim_version(redis: Redis) -> str:
    """Return the store's version, writing STORE_VERSION into an empty store or over PREVIOUS_STORE_VERSION.

    Empty where there is data without a version.
    """
    return decode_text(
        await redis.eval(
            CLAIM_VERSION_SCRIPT, 1 + len(FIXED_KEYS), VERSION_KEY, *FIXED_KEYS, str(STORE_VERSION), str(PREVIOUS_STORE_VERSION)
        )
    )
