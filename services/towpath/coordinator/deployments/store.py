"""Deployment plans in Redis, beside the registry of jobs.

Keys: `towpath:plans` (plan → progress), `towpath:plan-devices:<plan>` (device → record),
`towpath:plan-versions:<plan>` (number → version).
"""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.plan_rollout import PlanVersion
from towpath.coordinator.registry.contents import PREFIX
from towpath.coordinator.registry.jobs import Registry
from towpath.plans.records import DeviceRecord, PlanRecord
from towpath.protocols.runner import Superseded

PLANS = f"{PREFIX}plans"

_NEXT = """
local function follows(key, field, text)
  local old = redis.call('HGET', key, field)
  if old == text then return true end
  local revision = cjson.decode(text).revision
  if not old then return revision <= 1 end
  return cjson.decode(old).revision == revision - 1
end
"""

SAVE = (
    _NEXT
    + """
-- KEYS records
-- ARGV name, record
if not follows(KEYS[1], ARGV[1], ARGV[2]) then return 'superseded' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 'written'
"""
)
"""Write a record if it follows the one that is there. A repetition changes nothing."""

BEGIN = (
    _NEXT
    + """
-- KEYS plans, devices, versions
-- ARGV plan, progress, number, version, earlier versions to keep (,1,2,), then: device, record, …
if not follows(KEYS[1], ARGV[1], ARGV[2]) then return 'superseded' end
for i = 6, #ARGV, 2 do
  if not follows(KEYS[2], ARGV[i], ARGV[i + 1]) then return 'superseded' end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
for i = 6, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
for _, number in ipairs(redis.call('HKEYS', KEYS[3])) do
  if number ~= ARGV[3] and not string.find(ARGV[5], ',' .. number .. ',', 1, true) then
    redis.call('HDEL', KEYS[3], number)
  end
end
return 'written'
"""
)
"""Write a new version, the progress that begins with it and the devices that it changes."""


class DeploymentStore:
    """Implements `towpath.plans.store.PlanStore`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def names(self) -> list[str]:
        """Return all plans."""
        return sorted(await self._registry.call("hkeys", PLANS))

    async def load(self, plan: str) -> tuple[PlanRecord, dict[str, DeviceRecord]] | None:
        """See `PlanStore.load`."""
        text = await self._registry.call("hget", PLANS, plan)
        if text is None:
            return None
        found = await self._registry.call("hgetall", _devices_key(plan))
        devices = {name: DeviceRecord.from_json(found[name]) for name in sorted(found)}
        return PlanRecord.from_json(text), devices

    async def versions(self, plan: str) -> list[PlanVersion]:
        """See `PlanStore.versions`."""
        found = await self._registry.call("hgetall", _versions_key(plan))
        return [PlanVersion.from_json(found[number]) for number in sorted(found, key=int)]

    async def begin(self, record: PlanRecord, version: PlanVersion, devices: Sequence[DeviceRecord]) -> None:
        """See `PlanStore.begin`."""
        keys = [PLANS, _devices_key(record.plan), _versions_key(record.plan)]
        kept = f",{','.join(str(number) for number in record.outcomes)},"
        changed = [part for device in devices for part in (device.device, device.model_dump_json())]
        texts = [record.model_dump_json(), str(version.version), version.model_dump_json()]
        await self._write(BEGIN, keys, [record.plan, *texts, kept, *changed])

    async def save_progress(self, record: PlanRecord) -> None:
        """See `PlanStore.save_progress`."""
        await self._write(SAVE, [PLANS], [record.plan, record.model_dump_json()])

    async def save_device(self, plan: str, record: DeviceRecord) -> None:
        """See `PlanStore.save_device`."""
        await self._write(SAVE, [_devices_key(plan)], [record.device, record.model_dump_json()])

    async def _write(self, script: str, keys: list[str], arguments: list[str]) -> None:
        if await self._registry.run_script(script, keys, arguments) != "written":
            raise Superseded(arguments[0])


def _devices_key(plan: str) -> str:
    return f"{PREFIX}plan-devices:{plan}"


def _versions_key(plan: str) -> str:
    return f"{PREFIX}plan-versions:{plan}"
