/** The declared tables against the tables that the migrations create. */
import { describe, expect, test } from 'vitest';
import { apiTokenTable, credentialTable } from '../../src/access/types.ts';
import { directiveTable } from '../../src/directive/directive.ts';
import { incidentTable, observationTable } from '../../src/insight/types.ts';
import { attemptTable } from '../../src/job/attempt.ts';
import { jobTable } from '../../src/job/job.ts';
import {
  contextTable,
  factTable,
  healthTable,
  processTable,
  switchTable,
} from '../../src/job/types.ts';
import { installationTable, provisionTable } from '../../src/package/types.ts';
import { branchTable, runTable, stepTable } from '../../src/pipeline/run/run.ts';
import { advancementTable } from '../../src/pipeline/run/types.ts';
import { breakerTable, transitionTable } from '../../src/schedule/breaker.ts';
import { scheduleTable } from '../../src/schedule/types.ts';
import { signalTable } from '../../src/signal/signal.ts';
import { tenantTable } from '../../src/tenant/tenants.ts';
import { deliveryTable, webhookTable } from '../../src/webhook/types.ts';
import { databases, openBench } from '../support/ledger/bench.ts';

const declared = [
  advancementTable,
  apiTokenTable,
  attemptTable,
  branchTable,
  breakerTable,
  contextTable,
  credentialTable,
  deliveryTable,
  directiveTable,
  factTable,
  healthTable,
  incidentTable,
  installationTable,
  jobTable,
  observationTable,
  processTable,
  provisionTable,
  runTable,
  scheduleTable,
  signalTable,
  stepTable,
  switchTable,
  tenantTable,
  transitionTable,
  webhookTable,
];

describe('the declared tables', () => {
  test.each(databases)('have columns that exist on %s', async (kind) => {
    const { sql } = await openBench(kind);
    for (const { name, columns } of declared) {
      await expect(sql(`select ${columns()} from ${name}`), name).resolves.toBeDefined();
    }
  });

  test('have the types of the columns, and are nullable where a column is', async () => {
    const { sql } = await openBench('sqlite');
    for (const { name, fields } of declared) {
      const stored = await sql(
        `select name, type, "notnull" as required, pk from pragma_table_info('${name}')`,
      );
      const byName = new Map(stored.map((row) => [row['name'], row]));
      for (const { column, type, isNullable } of fields.values()) {
        const row = byName.get(column);
        const isRequired = row?.['required'] === 1 || row?.['pk'] !== 0;
        expect([name, column, isNullable]).toEqual([name, column, !isRequired]);
        expect([name, column, row?.['type']]).toEqual([
          name,
          column,
          expect.stringMatching(type === 'int' ? /^int/i : /^text/i),
        ]);
      }
    }
  });
});
