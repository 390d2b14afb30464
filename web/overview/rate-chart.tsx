interface SecondCounts {
  readonly good: number;
  readonly failed: number;
}

const HEIGHT = 28;
const STEP = 4;

/** Bar for each second of the last minute: successes, and failures on top. */
export function RateChart({ seconds }: { readonly seconds: readonly SecondCounts[] }) {
  const most = Math.max(1, ...seconds.map(({ good, failed }) => good + failed));
  const scale = HEIGHT / most;
  const total = seconds.reduce((sum, { good, failed }) => sum + good + failed, 0);
  return (
    <svg
      class="pulse"
      viewBox={`0 0 ${seconds.length * STEP} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${total} attempts ended in the last minute`}
    >
      {seconds.map(({ good, failed }, at) => (
        <g>
          <rect
            class="pulse-good"
            x={at * STEP}
            width={STEP - 1}
            y={HEIGHT - good * scale}
            height={good * scale}
          />
          <rect
            class="pulse-bad"
            x={at * STEP}
            width={STEP - 1}
            y={HEIGHT - (good + failed) * scale}
            height={failed * scale}
          />
        </g>
      ))}
      <line x1="0" x2={seconds.length * STEP} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
    </svg>
  );
}
