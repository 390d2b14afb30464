const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Formats a time relative to now, such as `5m ago`. */
export function relative(at: number, now: number): string {
  const distance = Math.abs(now - at);
  if (distance < SECOND) return 'now';
  const length = coarse(distance);
  return at <= now ? `${length} ago` : `in ${length}`;
}

function coarse(ms: number): string {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)}s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)}m`;
  if (ms < DAY) return two(ms, HOUR, 'h', MINUTE, 'm');
  return two(ms, DAY, 'd', HOUR, 'h');
}

function two(ms: number, unit: number, name: string, part: number, partName: string): string {
  const whole = Math.floor(ms / unit);
  const rest = Math.floor((ms % unit) / part);
  return rest === 0 || whole > 9 ? `${whole}${name}` : `${whole}${name} ${rest}${partName}`;
}

/** Formats a duration. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return '–';
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(2)} s`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  return coarse(ms);
}

/** Formats a timestamp in the user's time zone, followed by the stored one. */
export function absolute(stamp: string): string {
  const date = new Date(stamp);
  if (Number.isNaN(date.getTime())) return stamp;
  const local = date.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
  return `${local} · ${stamp}`;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  const kb = size / 1024;
  return kb < 1024 ? `${kb.toFixed(kb < 10 ? 1 : 0)} KB` : `${(kb / 1024).toFixed(1)} MB`;
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return '–';
  const share = (100 * part) / whole;
  return `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

/** Formats a number with thin spaces between thousands. */
export function count(value: number): string {
  return String(Math.round(value)).replaceAll(/\B(?=(\d{3})+$)/g, '\u202f');
}
