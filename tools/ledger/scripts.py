"""The ledger's Lua scripts, each one atomic transition: check everything, then write, audit line first.

They trust what Python verified; from Redis they read only mutable state: state, votes, token, locks and brakes. They
never decode or encode JSON. Answers: `ok LENGTH [TOKEN]`, `retry` (state moved since Python read it), or a refusal's
name. A script resent after a lost connection repeats its first answer.
"""

from collections.abc import Mapping

# `next_token`: a token is never below the time in milliseconds, so a Redis that went back in time gives none twice.
PRELUDE = """
local P, prev, row, head, now, id, nonce = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
local targets, group, incident = ARGV[8], ARGV[9], ARGV[10]
local apr, votes = P..'apr:'..id, P..'votes:'..id
local again = redis.call('GET', P..'did:'..nonce)
if again then return again end
local length = 0
local function num(n) return string.format('%.0f', n) end
local function stored(key)
  local text = redis.call('GET', P..key) or '0'
  return string.match(text, '^%d+$') and #text <= 13 and tonumber(text) or 0
end
local function behind() return now < stored('clock') end
local function begin(rewinding)
  if (redis.call('GET', P..'head') or '') ~= prev or (behind() and not rewinding) then return false end
  redis.call('SET', P..'clock', num(now))
  length = redis.call('RPUSH', P..'audit', row)
  redis.call('SET', P..'head', head)
  return true
end
local function ok(token)
  local answer = 'ok '..num(length)..' '..(token or '')
  redis.call('SET', P..'did:'..nonce, answer, 'EX', 300)
  return answer
end
local function state() return redis.call('HGET', apr, 'state') or 'gone' end
local function words(text) return string.gmatch(text, '[^ ]+') end
local function same_votes(seen)
  local count = 0
  for line in string.gmatch(seen, '[^\\n]+') do
    local at = string.find(line, ' ', 1, true)
    if redis.call('HGET', votes, string.sub(line, 1, at - 1)) ~= string.sub(line, at + 1) then return false end
    count = count + 1
  end
  return redis.call('HLEN', votes) == count
end
local function due(at)
  if at then redis.call('ZADD', P..'due', at, id) else redis.call('ZREM', P..'due', id) end
end
local function leave(other)
  for target in words(targets) do redis.call('SREM', P..'open:'..target, other or id) end
end
local function release()
  for target in words(targets) do
    if redis.call('GET', P..'target:'..target) == id then
      redis.call('DEL', P..'target:'..target)
      redis.call('ZREM', P..'busy:'..group, target)
    end
  end
  redis.call('SREM', P..'held', id)
end
local function next_token()
  local token = math.max(now, 1 + stored('fence'))
  redis.call('SET', P..'fence', num(token))
  return num(token)
end
"""

PROPOSE = """
local action, digest, request, mac, decide_by = ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15]
if redis.call('EXISTS', apr) == 1 then return 'exists' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', 'pending', 'action', action, 'digest', digest, 'request', request, 'mac', mac, 'decide_by', decide_by,
  'proposed_at', num(now))
redis.call('SADD', P..'of:'..incident, id)
for target in words(targets) do redis.call('SADD', P..'open:'..target, id) end
due(decide_by)
return ok()
"""

VOTE = """
local mac, seen_votes, decide_by, voter, vote = ARGV[11], ARGV[12], tonumber(ARGV[13]), ARGV[14], ARGV[15]
local delivery, becomes, start_by, approved, reason = ARGV[16], ARGV[17], ARGV[18], ARGV[19], ARGV[20]
if redis.call('EXISTS', P..'seen:'..delivery) == 1 then return 'replayed' end
if state() ~= 'pending' then return 'not_open '..state() end
if redis.call('HGET', apr, 'mac') ~= mac then return 'tampered' end
if now > decide_by then return 'late' end
if redis.call('HEXISTS', votes, voter) == 1 and becomes ~= 'denied' then return 'already' end
if not same_votes(seen_votes) then return 'retry' end
if not begin() then return 'retry' end
redis.call('SET', P..'seen:'..delivery, id, 'EX', 86400)
redis.call('HSET', votes, voter, vote)
redis.call('HSET', apr, 'state', becomes)
if becomes == 'approved' then
  redis.call('HSET', apr, 'start_by', start_by, 'approved', approved)
  due(start_by)
elseif becomes == 'denied' then
  redis.call('HSET', apr, 'ended_by', voter, 'says', reason)
  due(nil)
  leave()
end
return ok()
"""

CLAIM = """
local mac, seen_votes, start_by, worker, beat_ms = ARGV[11], ARGV[12], tonumber(ARGV[13]), ARGV[14], tonumber(ARGV[15])
local covered, changes = ARGV[16], ARGV[17] == '1'
local blast_most, blast_ms, at_once = tonumber(ARGV[18]), tonumber(ARGV[19]), tonumber(ARGV[20])
local window_most, window_ms = tonumber(ARGV[21]), tonumber(ARGV[22])
local blast, window, busy = P..'blast:'..incident, P..'window:'..group, P..'busy:'..group
local stopped = redis.call('HGET', P..'brakes', 'stop')
if stopped then return 'stopped '..stopped end
if state() ~= 'approved' then return 'not_open '..state() end
if redis.call('HGET', apr, 'mac') ~= mac or redis.call('HEXISTS', apr, 'claimed_at') == 1 then return 'tampered' end
if now > start_by then return 'late' end
if not same_votes(seen_votes) then return 'retry' end
if redis.call('HEXISTS', P..'brakes', 'breaker:'..group) == 1 then return 'breaker' end
for target in words(targets) do
  local holder = redis.call('GET', P..'target:'..target)
  if holder then return 'busy '..holder end
end
local function others(key, after)
  local count = after and redis.call('ZCOUNT', key, '('..num(after), '+inf') or redis.call('ZCARD', key)
  for target in words(targets) do
    local at = redis.call('ZSCORE', key, target)
    if not at or (after and tonumber(at) <= after) then count = count + 1 end
  end
  return count
end
if changes then
  if others(blast, now - blast_ms) > blast_most then return 'blast' end
  if others(busy) > at_once then return 'fleet' end
  if others(window, now - window_ms) > window_most then return 'trip' end
end
for other in words(covered) do
  local s = redis.call('HGET', P..'apr:'..other, 'state')
  if s ~= 'pending' and s ~= 'approved' then return 'retry' end
end
if not begin() then return 'retry' end
local token = next_token()
for target in words(targets) do
  redis.call('SET', P..'target:'..target, id)
  if changes then
    redis.call('ZADD', blast, num(now), target)
    redis.call('ZADD', window, num(now), target)
    redis.call('ZADD', busy, num(now), target)
  end
end
redis.call('ZREMRANGEBYSCORE', blast, '-inf', num(now - blast_ms))
redis.call('ZREMRANGEBYSCORE', window, '-inf', num(now - window_ms))
for other in words(covered) do
  redis.call('HSET', P..'apr:'..other, 'state', 'superseded', 'ended_by', id, 'says', 'made needless by '..id, 'covered_by', id)
  redis.call('ZREM', P..'due', other)
  leave(other)
end
redis.call('HSET', apr, 'state', 'executing', 'token', token, 'worker', worker, 'beat_until', num(now + beat_ms), 'claimed_at', num(now))
redis.call('SADD', P..'held', id)
due(num(now + beat_ms))
return ok(token)
"""

BEAT = """
local token, beat_ms = ARGV[11], tonumber(ARGV[12])
if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end
if behind() then return 'retry' end
redis.call('SET', P..'clock', num(now))
redis.call('HSET', apr, 'beat_until', num(now + beat_ms))
due(num(now + beat_ms))
return 'ok 0'
"""

ADOPT = """
local worker, beat_ms = ARGV[11], tonumber(ARGV[12])
if state() ~= 'executing' then return 'not_open '..state() end
if now <= tonumber(redis.call('HGET', apr, 'beat_until') or '0') then return 'alive' end
if not begin() then return 'retry' end
local token = next_token()
redis.call('HSET', apr, 'token', token, 'worker', worker, 'beat_until', num(now + beat_ms))
due(num(now + beat_ms))
return ok(token)
"""

FINISH = """
local token, becomes, exit_status, output, says = ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15]
if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'exit_status', exit_status, 'output', output, 'says', says, 'finished_at', num(now))
due(nil)
leave()
if becomes ~= 'unknown' then release() end
return ok()
"""

RECONCILE = """
local human, becomes, says = ARGV[11], ARGV[12], ARGV[13]
if state() ~= 'unknown' then return 'not_open '..state() end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'ended_by', human, 'says', says)
release()
return ok()
"""

END = """
local becomes, by, says, until_ms = ARGV[11], ARGV[12], ARGV[13], tonumber(ARGV[14])
local seen_state, replaced_by = ARGV[15], ARGV[16]
if state() ~= seen_state then return 'retry' end
if until_ms and now <= until_ms then return 'early' end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'state', becomes, 'ended_by', by, 'says', says)
if replaced_by ~= '' then redis.call('HSET', apr, 'replaced_by', replaced_by) end
due(nil)
leave()
return ok()
"""

OUTCOME = """
local outcome = ARGV[11]
if state() ~= 'done' and state() ~= 'failed' then return 'not_open '..state() end
if not begin() then return 'retry' end
redis.call('HSET', apr, 'outcome', outcome)
return ok()
"""

SWITCH = """
local brake, value, by, why = ARGV[11], ARGV[12], ARGV[13], ARGV[14]
if not begin() then return 'retry' end
if value ~= '' then
  redis.call('HSET', P..'brakes', brake, value)
  if brake == 'stop' then redis.call('HSET', P..'brakes', 'stopped_by', by, 'stopped_why', why) end
else
  redis.call('HDEL', P..'brakes', brake)
  if brake == 'stop' then redis.call('HDEL', P..'brakes', 'stopped_by', 'stopped_why') end
  if brake ~= 'stop' then redis.call('DEL', P..'window:'..group) end
end
return ok()
"""

# Records a decision of a person that changes no action.
NOTE = """
if not begin() then return 'retry' end
return ok()
"""

REWIND = """
if not begin(true) then return 'retry' end
return ok()
"""

SCRIPTS: Mapping[str, str] = {
    name: PRELUDE + body
    for name, body in {
        "propose": PROPOSE,
        "vote": VOTE,
        "claim": CLAIM,
        "beat": BEAT,
        "adopt": ADOPT,
        "finish": FINISH,
        "reconcile": RECONCILE,
        "end": END,
        "outcome": OUTCOME,
        "switch": SWITCH,
        "note": NOTE,
        "rewind": REWIND,
    }.items()
}
