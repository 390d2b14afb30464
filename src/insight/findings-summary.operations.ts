import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { findingId, type LiveFinding } from './finding.ts';
import type { Context } from '../operation/context.ts';
import { countFindings, findingShape } from './findings.service.ts';
import { readLive, subjectOf } from './ledger-findings.operations.ts';
import { SharedFigure } from './shared-figure.service.ts';
import { bareLedger } from '../access/cover.operations.ts';

export const summaryShape = z
  .object({
    errors: z.int(),
    warnings: z.int(),
    infos: z.int(),
    first: z.array(
      findingShape
        .pick({ id: true, kind: true, severity: true, message: true, since: true, why: true })
        .extend({ command: z.string().nullable() }),
    ),
  })
  .describe('what the checks of `doctor` find on the ledger, and the most urgent of it');

const known = new WeakMap<Ledger, SharedFigure<readonly LiveFinding[]>>();

/** Counts what the checks find, and shows the first; callers at the same time share one look. */
export async function readSummary({
  engine,
  principal,
}: Pick<Context, 'engine' | 'principal'>): Promise<z.output<typeof summaryShape>> {
  // Evidence has nothing that only some callers may see, so all of them share it.
  const ledger = bareLedger(engine.ledger);
  let figure = known.get(ledger);
  if (figure === undefined) {
    const isRoot = principal.tenant === undefined;
    figure = new SharedFigure<readonly LiveFinding[]>(
      () => readLive({ ...subjectOf(engine, isRoot), ledger }),
      () => 0,
    );
    known.set(ledger, figure);
  }
  const { value: findings } = await figure.get();
  return {
    ...countFindings(findings),
    first: findings.slice(0, limits.findingsShownMax).map((finding) => ({
      id: findingId(finding),
      kind: finding.kind,
      severity: finding.severity,
      message: finding.message,
      since: finding.since ?? null,
      why: finding.why ?? null,
      command: finding.commands[0] ?? null,
    })),
  };
}
