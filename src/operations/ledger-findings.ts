import { toFinding, type Finding } from '../config/findings.ts';
import { placeOf } from '../config/installed.ts';
import { makeProblem } from '../config/problem.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** What a ledger has on record that somebody should see to: nothing of it keeps others from working. */
export async function findOnLedger(
  ledger: Pick<Ledger, 'installations' | 'tenants'>,
): Promise<Finding[]> {
  const installations = await ledger.installations({});
  const tenants = await ledger.tenants();
  return [
    ...installations.flatMap((row) => {
      if (row.lastError === null) return [];
      const message = `is installed and not in force: ${row.lastError}`;
      const hint = `Put right what it says, then \`ductile package enable ${row.slug}\`.`;
      const problem = makeProblem(placeOf(row), `package ${row.slug}`, message, hint);
      return [toFinding('error', 'packages', problem)];
    }),
    ...tenants.flatMap(({ slug, schemaError }) => {
      if (schemaError === null) return [];
      const message = `has a ledger that does not open: ${schemaError}`;
      const hint = 'It is tried again by itself; `ductile system migrate` tries it at once.';
      const problem = makeProblem(`tenant ${slug}`, `tenant ${slug}`, message, hint);
      return [toFinding('error', 'state', problem)];
    }),
  ];
}
