/**
 * A timezone as its changes of offset. Local times are the milliseconds that their calendar fields
 * would have in UTC, so that arithmetic on them is calendar arithmetic.
 */
export interface Zone {
  readonly name: string;
  /** Local minus UTC, in milliseconds. */
  offsetAt(utcMs: number): number;
}

const MINUTE_MS = 60 * 1000;
const DAY_MS = 24 * 60 * MINUTE_MS;
/** Changes of one zone are further apart than this, so one probe per stride finds them all. */
const STRIDE_MS = 7 * DAY_MS;
/** No zone is further from UTC, and none jumps further. */
const OFFSET_MS_MAX = 26 * 60 * MINUTE_MS;

const zones = new Map<string, Zone>();

/** Returns the zone of a valid IANA name. Asking the system is slow, so its results are cached. */
export function zoneOf(name: string): Zone {
  let zone = zones.get(name);
  if (zone === undefined) zones.set(name, (zone = makeZone(name)));
  return zone;
}

export function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).format(0) !== '';
  } catch {
    return false;
  }
}

export function localOf(zone: Zone, utcMs: number): number {
  return utcMs + zone.offsetAt(utcMs);
}

/** Returns when a local time happens: once, twice if clocks go back, never if they skip it. */
export function instantsOf(zone: Zone, localMs: number): number[] {
  const before = zone.offsetAt(localMs - OFFSET_MS_MAX);
  const after = zone.offsetAt(localMs + OFFSET_MS_MAX);
  const offsets = before === after ? [before] : [Math.max(before, after), Math.min(before, after)];
  return offsets.map((offset) => localMs - offset).filter((utc) => localOf(zone, utc) === localMs);
}

/**
 * Returns the first moment with this local time, or the first moment after the gap that contains
 * it.
 */
export function toUtc(zone: Zone, localMs: number): number {
  return instantsOf(zone, localMs)[0] ?? endOfGap(zone, localMs);
}

export function addDays(zone: Zone, utcMs: number, days: number): number {
  return toUtcAfter(zone, utcMs, localOf(zone, utcMs) + days * DAY_MS);
}

/** Adds months. If the month is too short, the result is its last day. */
export function addMonths(zone: Zone, utcMs: number, months: number): number {
  const local = new Date(localOf(zone, utcMs));
  const day = local.getUTCDate();
  local.setUTCDate(1);
  local.setUTCMonth(local.getUTCMonth() + months);
  local.setUTCDate(Math.min(day, daysIn(local.getUTCFullYear(), local.getUTCMonth() + 1)));
  return toUtcAfter(zone, utcMs, local.getTime());
}

export function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/** Converts to UTC. If the local time comes twice, the result must still be after `fromMs`. */
function toUtcAfter(zone: Zone, fromMs: number, localMs: number): number {
  const [first, second] = instantsOf(zone, localMs);
  if (first === undefined) return endOfGap(zone, localMs);
  return first > fromMs ? first : (second ?? first);
}

/** Finds the change of offset whose gap contains the local time. */
function endOfGap(zone: Zone, localMs: number): number {
  let low = localMs - OFFSET_MS_MAX;
  let high = localMs + OFFSET_MS_MAX;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (localOf(zone, middle) < localMs) low = middle;
    else high = middle;
  }
  return high;
}

interface OffsetChange {
  readonly fromMs: number;
  readonly offset: number;
}

/** About three years are computed at once, in less than a millisecond. */
const CHUNK_MS = 160 * STRIDE_MS;

function makeZone(name: string): Zone {
  const readOffset = makeOffsetReader(name);
  const chunks = new Map<number, readonly OffsetChange[]>();
  return {
    name,
    offsetAt(utcMs) {
      const index = Math.floor(utcMs / CHUNK_MS);
      let changes = chunks.get(index);
      if (changes === undefined) {
        changes = findChanges(readOffset, index * CHUNK_MS, (index + 1) * CHUNK_MS);
        chunks.set(index, changes);
      }
      return findLast(changes, utcMs).offset;
    },
  };
}

function findChanges(
  readOffset: (ms: number) => number,
  fromMs: number,
  toMs: number,
): OffsetChange[] {
  const changes: OffsetChange[] = [{ fromMs, offset: readOffset(fromMs) }];
  let offset = readOffset(fromMs);
  for (let at = fromMs; at < toMs; at += STRIDE_MS) {
    const until = Math.min(at + STRIDE_MS, toMs);
    const next = readOffset(until);
    if (next === offset) continue;
    let low = at;
    let high = until;
    while (high - low > 1000) {
      const middle = Math.floor((low + high) / 2000) * 1000;
      if (readOffset(middle) === offset) low = middle;
      else high = middle;
    }
    changes.push({ fromMs: high, offset: next });
    offset = next;
  }
  return changes;
}

function findLast(changes: readonly OffsetChange[], utcMs: number): OffsetChange {
  let low = 0;
  let high = changes.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((changes[middle]?.fromMs ?? 0) <= utcMs) low = middle;
    else high = middle - 1;
  }
  return changes[low] ?? { fromMs: 0, offset: 0 };
}

function makeOffsetReader(name: string): (utcMs: number) => number {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: name,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (utcMs) => {
    const fields = new Map<string, number>();
    for (const { type, value } of format.formatToParts(utcMs)) fields.set(type, Number(value));
    const get = (type: string): number => fields.get(type) ?? 0;
    const local = Date.UTC(
      get('year'),
      get('month') - 1,
      get('day'),
      get('hour'),
      get('minute'),
      get('second'),
    );
    return local - Math.floor(utcMs / 1000) * 1000;
  };
}
