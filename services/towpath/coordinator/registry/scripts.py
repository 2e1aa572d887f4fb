"""The registry's atomic writes, as Redis runs them.

Every key a script touches is passed to it. Each script may be run again after its reply was lost: it then
recognises that it has run before and changes nothing.
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
  version = string.format(
    '%d/%d/%d/%d', entry.epoch, entry.used_epoch or 0, entry.revision or 0, entry.adjustments or 0)
end
if version ~= ARGV[5] then return {'changed', ''} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('SET', KEYS[3], ARGV[3])
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[2])
redis.call('SADD', KEYS[5], ARGV[2])
redis.call('SET', KEYS[6], ARGV[2], 'EX', ARGV[6])
return {'accepted', ARGV[2]}
"""
"""Take the job's lock and write the operation, if the job has not changed since the decision. Every operation
that changes a job raises one of four numbers: its epoch, the epoch it has used up, its revision, its
adjustments."""

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
"""Write a line of a journal at its position, with the change it confirms. Only one of two coordinators can:
the second finds the position taken, or the operation ended and its journal perhaps forgotten."""

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

ADOPT = """
-- KEYS locks, jobs, former
-- ARGV job, entry
local holder = redis.call('HGET', KEYS[1], ARGV[1])
if holder then return holder end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HDEL', KEYS[3], ARGV[1])
return ''
"""
"""Write a job as its site has it, if no operation holds it."""

REQUEST = """
-- KEYS locks, requests of a kind
-- ARGV job, operation
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 'ended' end
redis.call('SADD', KEYS[2], ARGV[2])
return 'noted'
"""
"""Note the request to roll an operation back, or to finish it, if it has not ended."""

BEGIN_APPLY = """
-- KEYS pipelines, applies, apply, changes, versions, command, all of the apply before
-- ARGV name, apply, record, pipeline, newest apply when it was decided ('' for none), version, description
--   ('' for none), oldest version to keep, lifetime of the command (s), changes: job, record, …
local earlier = redis.call('GET', KEYS[6])
if earlier then return {'accepted', earlier} end
local text, newest = redis.call('HGET', KEYS[1], ARGV[1]), ''
if text then
  newest = cjson.decode(text).apply
  if redis.call('SISMEMBER', KEYS[2], newest) == 1 then return {'busy', newest} end
end
if newest ~= ARGV[5] then return {'changed', ''} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
redis.call('SET', KEYS[3], ARGV[3])
for i = 10, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[i], ARGV[i + 1]) end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[5], ARGV[6], ARGV[7]) end
redis.call('HDEL', KEYS[5], ARGV[8])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('SET', KEYS[6], ARGV[2], 'EX', ARGV[9])
for i = 7, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[9]) end
return {'accepted', ARGV[2]}
"""
"""Accept an apply, unless another one of the pipeline is under way or was accepted meanwhile. The apply
before it is kept as long as its command is remembered."""

END_APPLY = """
-- KEYS pipelines, applies, apply, versions, changes, all changes, unannounced
-- ARGV name, apply, record, pipeline ('' forgets it), all changes, lifetime of a forgotten one (s)
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 0 then return 'again' end
redis.call('SET', KEYS[3], ARGV[3])
redis.call('SET', KEYS[6], ARGV[5])
redis.call('DEL', KEYS[5])
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('DEL', KEYS[4])
  redis.call('EXPIRE', KEYS[3], ARGV[6])
  redis.call('EXPIRE', KEYS[6], ARGV[6])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
end
redis.call('SADD', KEYS[7], ARGV[2])
redis.call('SREM', KEYS[2], ARGV[2])
return 'written'
"""
"""Save an ended apply. Its changes become one text, which takes a tenth of the space of single ones. If a
coordinator that was replaced repeats this, it changes nothing: another apply may be under way."""

SAVE_CHANGE = """
-- KEYS applies, changes
-- ARGV apply, job, change
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 then return 'ended' end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 'written'
"""
"""Save the state of a change, unless its apply has ended: a coordinator that was replaced may still send
it, and it would stand beside the saved changes."""
