import type { ComponentChildren } from 'preact';
import { navigate } from './navigate.ts';

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  /** Minimum width of the screen for this column (default: any width). */
  readonly from?: 'middle' | 'wide';
  readonly kind?: 'number' | 'grow' | 'act';
}

interface TableProps<Row> {
  readonly label: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
  readonly keyOf: (row: Row) => string;
  /** Target of a click on the row. The first cell has the same link, for the keyboard. */
  readonly href?: (row: Row) => string;
  readonly toneOf?: (row: Row) => string;
}

export function Table<Row>({ label, rows, columns, keyOf, href, toneOf }: TableProps<Row>) {
  const open = (row: Row, event: MouseEvent): void => {
    const isOwn = event.target instanceof Element && event.target.closest('a, button') !== null;
    const isSelecting = (getSelection()?.toString() ?? '') !== '';
    if (href !== undefined && !isOwn && !isSelecting && event.button === 0) navigate(href(row));
  };
  return (
    <div class="table">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ title, from, kind }) => (
              <th scope="col" class={classOf(from, kind)}>
                {title === '' ? <span class="unseen">Actions</span> : title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr
              key={keyOf(row)}
              class={`${href === undefined ? '' : 'linked'} ${toneOf?.(row) ?? ''}`}
              onClick={(event) => open(row, event)}
            >
              {columns.map(({ cell, from, kind }) => (
                <td class={classOf(from, kind)}>{cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf(from: string | undefined, kind: string | undefined): string {
  return `${from === undefined ? '' : `from-${from}`} ${kind ?? ''}`.trim();
}
