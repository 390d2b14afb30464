import { Text } from './text.tsx';

type Tone = 'good' | 'bad' | 'warn' | 'busy' | 'calm';

/** Each state has its own shape, for users who can't distinguish colors. */
const shapes = {
  check: 'M3.5 8.5l3 3 6-6.5',
  cross: 'M4.5 4.5l7 7m0-7l-7 7',
  stop: 'M5 5h6v6H5z',
  clock: 'M8 4.5V8l2.5 1.5',
  dots: 'M4.5 8h.01M8 8h.01M11.5 8h.01',
  arc: 'M8 2.5A5.5 5.5 0 0 1 13.5 8',
  bar: 'M4 12L12 4',
  pause: 'M6.2 5v6m3.6-6v6',
  skip: 'M4.5 8h7m-3-3l3 3-3 3',
  hand: 'M8 4.5v4m0 2.6v.01',
} as const;

interface StatusStyle {
  readonly tone: Tone;
  readonly shape: keyof typeof shapes;
}

const styles: ReadonlyMap<string, StatusStyle> = new Map<string, StatusStyle>([
  ...of('good', 'check', 'succeeded completed healthy closed accepted installed enabled ok yes'),
  ...of('bad', 'cross', 'failed unhealthy refused error settle_error crashed'),
  ...of('bad', 'stop', 'dead halted open broken'),
  ...of('bad', 'clock', 'timed_out overdue'),
  ...of('calm', 'dots', 'queued pending requested delayed dormant info'),
  ...of('busy', 'arc', 'running advancing active awake half_open installing upgrading'),
  ...of('calm', 'bar', 'cancelled disabled retired uninstalled no asleep'),
  ...of('warn', 'pause', 'paused suspended held invalid'),
  ...of('calm', 'skip', 'skipped released'),
  ...of('warn', 'hand', 'waiting awaiting_approval approval warning'),
]);

function of(
  tone: Tone,
  shape: keyof typeof shapes,
  words: string,
): (readonly [string, StatusStyle])[] {
  return words.split(' ').map((word) => [word, { tone, shape }] as const);
}

export function toneOf(status: string): Tone {
  return styles.get(status)?.tone ?? 'calm';
}

/** State with its color, shape and word. */
export function Status({ value, says }: { readonly value: string; readonly says?: string }) {
  const { tone, shape } = styles.get(value) ?? { tone: 'calm', shape: 'dots' };
  return (
    <span class={`status ${tone}${value === 'running' ? ' turning' : ''}`}>
      <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
        <circle cx="8" cy="8" r="7" />
        <path d={shapes[shape]} />
      </svg>
      <Text value={(says ?? value).replaceAll('_', ' ')} />
    </span>
  );
}
