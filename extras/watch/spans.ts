import { styleText } from 'node:util';
import { toVisibleText } from '../../src/base/text.ts';
import { cut, widthOf } from '../../src/cli/table.ts';
import type { Style } from '../../src/cli/print.ts';

/** Part of a line in one style. */
export interface Span {
  readonly text: string;
  readonly style?: Style | undefined;
}

export type Line = readonly Span[];

export function makeLine(text: string, style?: Style): Line {
  return [{ text, style }];
}

/**
 * Writes a line to the terminal; the only function that does. Text is escaped, and no line is wider
 * than the screen.
 */
export function writeLine(spans: Line, columns: number, hasColors: boolean): string {
  let width = columns;
  let written = '';
  for (const { text, style } of spans) {
    const shown = cut(toVisibleText(text), width);
    width -= widthOf(shown);
    const isStyled = hasColors && style !== undefined && shown !== '';
    written += isStyled ? styleText(style, shown, { validateStream: false }) : shown;
  }
  return written;
}

export function lineWidth(spans: Line): number {
  return spans.reduce((sum, { text }) => sum + widthOf(toVisibleText(text)), 0);
}
