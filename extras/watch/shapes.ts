/** Shapes distinguish states without colors. */
const shapes: ReadonlyMap<string, string> = new Map([
  ['running', '●'],
  ['advancing', '●'],
  ['queued', '○'],
  ['waiting', '○'],
  ['active', '○'],
  ['succeeded', '✓'],
  ['closed', '✓'],
  ['failed', '✗'],
  ['timed_out', '✗'],
  ['dead', '✗'],
  ['halted', '✗'],
  ['open', '▲'],
  ['half_open', '△'],
  ['cancelled', '−'],
  ['skipped', '−'],
]);

export function shapeOf(status: string): string {
  return shapes.get(status) ?? '·';
}

const bars = '▁▂▃▄▅▆▇█';

/** Draws figures as bars, the latest last; zero is a space. */
export function spark(figures: readonly number[]): string {
  const most = Math.max(1, ...figures);
  return figures
    .map((figure) => (figure <= 0 ? ' ' : bars[Math.ceil((figure / most) * bars.length) - 1]))
    .join('');
}
