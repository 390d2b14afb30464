import { toVisibleText } from '../base/text.ts';
import type { JsonOutput } from '../operation/define.ts';
import { writeMetrics } from './metrics-text.service.ts';
import type { Printer } from '../cli/print.ts';

/** As a monitor would get them. */
export function showMetrics({ families }: JsonOutput, printer: Printer): void {
  const text = writeMetrics(families as Parameters<typeof writeMetrics>[0]);
  for (const line of text.trimEnd().split('\n')) printer.line(toVisibleText(line));
}
