interface Beat {
  readonly good: number;
  readonly failed: number;
}

const HIGH = 28;
const STEP = 4;

/** The last minute, a bar for each second: what succeeded, and on top what failed. */
export function Pulse({ beats }: { readonly beats: readonly Beat[] }) {
  const most = Math.max(1, ...beats.map(({ good, failed }) => good + failed));
  const scale = HIGH / most;
  const total = beats.reduce((sum, { good, failed }) => sum + good + failed, 0);
  return (
    <svg
      class="pulse"
      viewBox={`0 0 ${beats.length * STEP} ${HIGH}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${total} attempts ended in the last minute`}
    >
      {beats.map(({ good, failed }, at) => (
        <g>
          <rect
            class="pulse-good"
            x={at * STEP}
            width={STEP - 1}
            y={HIGH - good * scale}
            height={good * scale}
          />
          <rect
            class="pulse-bad"
            x={at * STEP}
            width={STEP - 1}
            y={HIGH - (good + failed) * scale}
            height={failed * scale}
          />
        </g>
      ))}
      <line x1="0" x2={beats.length * STEP} y1={HIGH - 0.5} y2={HIGH - 0.5} />
    </svg>
  );
}
