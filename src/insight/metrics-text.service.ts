import type { Family, Sample } from './metrics.service.ts';

/** The media type of the text format that Prometheus reads. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Families in the text format; whatever stands in a label stays in that label. */
export function writeMetrics(families: readonly Family[]): string {
  return families
    .map(({ name, type, help, samples }) =>
      [
        `# HELP ${name} ${escape(help, /[\\\n]/g)}`,
        `# TYPE ${name} ${type}`,
        ...samples.map((sample) => writeSample(name, sample)),
      ].join('\n'),
    )
    .map((text) => `${text}\n`)
    .join('');
}

function writeSample(name: string, { suffix = '', labels, value }: Sample): string {
  const written = Object.entries(labels).map(
    ([label, text]) => `${label}="${escape(text, /[\\"\n]/g)}"`,
  );
  const braces = written.length === 0 ? '' : `{${written.join(',')}}`;
  return `${name}${suffix}${braces} ${value}`;
}

function escape(text: string, unsafe: RegExp): string {
  // A carriage return is no end of a line to Prometheus, but it is to some who read what it scraped.
  return text
    .toWellFormed()
    .replaceAll('\r', ' ')
    .replaceAll(unsafe, (char) => (char === '\n' ? String.raw`\n` : `\\${char}`));
}
