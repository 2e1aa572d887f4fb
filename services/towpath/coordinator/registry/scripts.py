"""The registry's atomic writes, as Redis runs them.

Every key a script touches is passed to it. Each script may be run again after its reply was lost:
it recognises that it has been carried out and changes nothing.
"""

BEGIN = """
-- KEYS locks, jobs, record, operations, unfinished, command
-- ARGV job, operation, record, begun (s), version of the job as it was read ('' for none), lifetime (s)
local earlier = redis.call('GET', KEYS[6])
if earlier then return {'accepted', earlier} end
local holder = redis.call('HGET', KEYS[1], ARGV[1])
if holder then return {'busy', holder} end
local text = redis.call('HGET', KEYS[2], ARGV[1])
local version = ''
if text then
  local entry = cjson.decode(text)
  version = string.format('%d/%d', entry.epoch, entry.used_epoch or 0)
end
if version ~= ARGV[5] then return {'changed', ''} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[3], ARGV[3])
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[2])
redis.call('SADD', KEYS[5], ARGV[2])
redis.call('SET', KEYS[6], ARGV[2], 'EX', ARGV[6])
return {'accepted', ARGV[2]}
"""
"""Take the job's lock and write the operation, if the job still is what the decision was made on:
every operation that changes a job raises its epoch, or at least the epoch it has used up, so the two are
its version."""

_CHANGE = """
local function change(job, what, entry, former)
  if what == '' then return end
  if entry == '' then redis.call('HDEL', KEYS[3], job) else redis.call('HSET', KEYS[3], job, entry) end
  if former == '' then redis.call('HDEL', KEYS[4], job) else redis.call('HSET', KEYS[4], job, former) end
end
"""

APPEND = (
    _CHANGE
    + """
-- KEYS journal, record, jobs, former, locks
-- ARGV position, line, record, job, change? ('' for none), entry ('' removes), former ('' removes), operation
if redis.call('HGET', KEYS[5], ARGV[4]) ~= ARGV[8] then return 'superseded' end
local length, position = redis.call('LLEN', KEYS[1]), tonumber(ARGV[1])
if length ~= position then
  if redis.call('LINDEX', KEYS[1], position) == ARGV[2] then return 'again' end
  return 'superseded'
end
redis.call('RPUSH', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[3])
change(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
return 'written'
"""
)
"""Write a line of a journal at its position, with the change it confirms. Two coordinators cannot
both: the second finds the position taken, or the operation ended and its journal perhaps forgotten."""

FINISH = (
    _CHANGE
    + """
-- KEYS journal, record, jobs, former, locks
-- ARGV position, operation, record, job, change?, entry, former
if redis.call('HGET', KEYS[5], ARGV[4]) ~= ARGV[2] then return 'again' end
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 'superseded' end
redis.call('SET', KEYS[2], ARGV[3])
change(ARGV[4], ARGV[5], ARGV[6], ARGV[7])
redis.call('HDEL', KEYS[5], ARGV[4])
return 'written'
"""
)
"""Write the ended record and give the lock back."""

REQUEST_ABORT = """
-- KEYS locks, aborts
-- ARGV job, operation
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 'ended' end
redis.call('SADD', KEYS[2], ARGV[2])
return 'noted'
"""
"""Note that an operation shall be rolled back, if it has not ended."""
