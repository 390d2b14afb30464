import { compact } from '../base/json.ts';
import { toCloudEvent, type ShownSignal } from '../signal/cloudevent.ts';
import { callOperation } from './call-operation.ts';
import type { CommonFlags, CliSession } from './host.ts';
import { rowsOf } from './view-parts.ts';

interface ExportOptions extends CommonFlags {
  readonly type?: string;
  readonly source?: string;
  readonly subject?: string;
  readonly correlationId?: string;
  readonly from?: string;
  readonly to?: string;
  readonly cloudevents?: boolean;
}

const PAGE_ROWS = 500;

/** Writes all signals as JSON lines, oldest first, page by page. */
export async function exportSignals(session: CliSession, options: ExportOptions): Promise<number> {
  const { type, source, subject, correlationId, from, to, cloudevents } = options;
  const filter = compact({ type, source, subject, correlation_id: correlationId, from, to });
  let cursor: unknown = undefined;
  do {
    const page = await callOperation(session, options, 'signal.list', {
      ...filter,
      ...compact({ cursor }),
      order: 'oldest',
      limit: PAGE_ROWS,
    });
    const lines = rowsOf(page['signals']).map((row) => {
      const shown = cloudevents === true ? toCloudEvent(row as unknown as ShownSignal) : row;
      return `${JSON.stringify(shown)}\n`;
    });
    if (lines.length > 0) session.io.stdout.write(lines.join(''));
    cursor = page['next_cursor'];
  } while (typeof cursor === 'string');
  return 0;
}
