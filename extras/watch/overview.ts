import type { Line, Span } from './spans.ts';
import { lineWidth } from './spans.ts';
import { spark } from './shapes.ts';
import { SECONDS_KEPT, type State } from './state.ts';

const BARS_MAX = 30;

/** Shows running, waiting and broken work; the bars are ended attempts per second. */
export function overviewLine({ known: { overview }, ends, size }: State): Line {
  const { running, queued, failed, breakers, incidents } = overview;
  const load = [
    ...figure(running, 'running', 'cyan'),
    ...figure(queued, 'queued', 'yellow'),
    ...figure(failed, 'failed/h', 'red'),
  ];
  const troubles = [
    [breakers, breakers === 1 ? 'breaker open' : 'breakers open'],
    [incidents, incidents === 1 ? 'incident' : 'incidents'],
  ] as const;
  const all = [...load, ...troubles.flatMap(([count, word]) => figure(count, word, 'red'))];
  // On a narrow screen zero counts are left out.
  const news = troubles.filter(([count]) => count !== 0);
  const isNarrow = lineWidth(all) > size.columns;
  const figures = isNarrow
    ? [...load, ...news.flatMap(([count, word]) => figure(count, word, 'red'))]
    : all;
  const perMinute = ends.reduce((sum, { good, bad }) => sum + good + bad, 0);
  const rate: Span = { text: `${perMinute}/min ` };
  const room = Math.min(BARS_MAX, SECONDS_KEPT, size.columns - lineWidth([...figures, rate]));
  if (room < 5) return figures;
  const lately = ends.slice(-room).map(({ good, bad }) => good + bad);
  return [...figures, rate, { text: spark(lately), style: 'green' }];
}

function figure(count: number | undefined, word: string, style: Span['style']): Span[] {
  const text = `${count ?? '–'} ${word}`;
  return [{ text, style: count === undefined || count === 0 ? 'gray' : style }, { text: '  ' }];
}
