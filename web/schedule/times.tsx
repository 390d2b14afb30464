import type { Coming, Job } from '../api/types.ts';
import { plain } from '../text/visible.ts';
import { absolute } from '../text/time.ts';
import { toneOf } from '../ui/status.tsx';
import { marksOf, placeOf, type Span } from './axis.ts';

const WIDTH = 1000;
const HEIGHT = 40;

interface TimesProps {
  readonly past: readonly Job[];
  readonly coming: readonly Coming[];
  readonly span: Span;
  readonly now: number;
}

/** Chart of past jobs (filled) and coming times (hollow) around now. */
export function Times({ past, coming, span, now }: TimesProps) {
  const fires = coming.filter((time) => time.fires).length;
  const label = `${past.length} past jobs, ${fires} upcoming times`;
  return (
    <svg
      class="times"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <line class="axis" x1={0} x2={WIDTH} y1={HEIGHT / 2} y2={HEIGHT / 2} />
      {past.map((job) => (
        <Tick
          key={job.job_id}
          at={Date.parse(job.created_at)}
          span={span}
          style={`done ${toneOf(job.status)}`}
          title={`${job.status.replaceAll('_', ' ')} · ${absolute(job.created_at)}`}
        />
      ))}
      {coming.map((time) => (
        <Tick
          key={`${time.at} ${time.fires}`}
          at={Date.parse(time.at)}
          until={Date.parse(time.until)}
          span={span}
          style={styleOf(time)}
          title={`${describeTime(time)} · ${absolute(time.at)}`}
        />
      ))}
      <Now now={now} span={span} />
    </svg>
  );
}

function styleOf({ fires, count }: Coming): string {
  if (!fires) return 'passed';
  return count > 1 ? 'many' : 'due';
}

function describeTime({ fires, count, reason }: Coming): string {
  if (!fires) return `skipped: ${reason ?? ''}`;
  return count > 1 ? `due ${count} times` : 'due';
}

interface TickProps {
  readonly at: number;
  readonly until?: number;
  readonly span: Span;
  readonly style: string;
  readonly title: string;
}

const TICK_WIDTH = 5;

function Tick({ at, until = at, span, style, title }: TickProps) {
  const from = placeOf(at, span);
  if (from === undefined) return null;
  const to = placeOf(until, span) ?? 1;
  const width = Math.max(TICK_WIDTH, (to - from) * WIDTH);
  return (
    <rect
      class={`tick ${style}`}
      x={from * WIDTH - TICK_WIDTH / 2}
      width={width}
      y={9}
      height={HEIGHT - 18}
      rx={2}
    >
      <title>{plain(title)}</title>
    </rect>
  );
}

function Now({ now, span }: { readonly now: number; readonly span: Span }) {
  const at = (placeOf(now, span) ?? 0) * WIDTH;
  return <line class="now" x1={at} x2={at} y1={0} y2={HEIGHT} />;
}

/** Labels of the time axis. */
export function Marks({ span, now }: { readonly span: Span; readonly now: number }) {
  const offset = new Date(now).getTimezoneOffset() * 60_000;
  const isLong = span.to - span.from > 2 * 24 * 60 * 60 * 1000;
  return (
    <svg width="100%" height="18">
      {marksOf(span, offset).map((at) => (
        <text x={`${(placeOf(at, span) ?? 0) * 100}%`} y={13} text-anchor="middle">
          {formatMark(at, isLong)}
        </text>
      ))}
    </svg>
  );
}

function formatMark(at: number, isLong: boolean): string {
  const date = new Date(at);
  return isLong
    ? date.toLocaleDateString(undefined, { weekday: 'short', day: 'numeric' })
    : date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
}
