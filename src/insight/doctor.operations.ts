import * as z from 'zod';
import type { Finding } from '../config/findings.ts';
import { readConfig } from '../config/load.ts';
import type { ConfigReading } from '../config/load.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { findingsShape, rankAll, showFindings } from './findings.service.ts';
import { findTier } from '../tenant/isolation-findings.operations.ts';
import {
  findInPlace,
  findLive,
  findOnLedger,
  subjectOf,
  type LedgerFindings,
} from './ledger-findings.operations.ts';
import { findOwnFaults, makeTargets } from './config-faults.service.ts';
import { makeSharedFindings } from './shared-findings.operations.ts';
import { listAllConfigFindings, loadOptions } from '../config/check.operations.ts';

export const systemDoctor = defineOperation({
  name: 'system.doctor',
  summary: 'List everything that is wrong or needs a decision, with the commands that resolve it.',
  effect: 'read',
  scope: 'system:ro',
  needs: 'files',
  input: z.strictObject({}),
  output: findingsShape,
  errors: ['CONFIG_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/system/doctor' },
  cli: {
    examples: ['ductile system doctor', 'ductile doctor --json'],
    exitCode: ({ errors }) => (errors === 0 ? 0 : 1),
  },
  async run(context) {
    if (context.place !== undefined) return await examineService(context);
    const isTenant = context.principal.tenant !== undefined;
    return await shareFindings(context, isTenant ? examineTenant : examineService);
  },
});

type ShownFindings = z.output<typeof findingsShape>;

/** Dashboards ask again and again; those of one ledger share what is found. */
const shareFindings = makeSharedFindings<ShownFindings>();

async function examineService(context: Context): Promise<ShownFindings> {
  const reading = readConfig(loadOptions(context));
  const { findings, hasTenants, credentials } = await lookAtLedger(reading, context);
  const found = [
    ...findings,
    ...(await listAllConfigFindings(reading, credentials)),
    ...findTier(reading, context, hasTenants),
  ];
  return showFindings(rankAll(dropRepeated(found, credentials !== undefined)));
}

/** Only what is in the tenant's own ledger: nothing about files, the machine or other tenants. */
async function examineTenant({ engine }: Context): Promise<ShownFindings> {
  const [live, faults] = await Promise.all([
    findLive(subjectOf(engine, false)),
    findOwnFaults(engine.ledger, () => makeTargets(engine)),
  ]);
  // A package's location is a file of the machine.
  const own = faults.map((one) => ({ ...one, place: one.live?.id ?? one.key }));
  return showFindings(rankAll([...live, ...own]));
}

/** The server's own, or from the command line the one that the files name, if they can be read. */
async function lookAtLedger({ config }: ConfigReading, context: Context): Promise<LedgerFindings> {
  const { place } = context;
  if (place === undefined) {
    // Without a service there is no engine to read.
    const { engine } = context;
    const { findings, ...more } = await findOnLedger(engine.ledger, () => makeTargets(engine));
    const live = await findLive(subjectOf(engine, true));
    return { findings: [...live, ...findings], ...more };
  }
  return config === undefined ? notRead : findInPlace(config, place);
}

const notRead: LedgerFindings = { findings: [], hasTenants: false };

/**
 * Leaves out what two sources report: a plugin that doesn't load is a problem of its files, and
 * whether a webhook's credential is there is known from the ledger.
 */
function dropRepeated(findings: readonly Finding[], isRead: boolean): Finding[] {
  const inFiles = new Set(findings.flatMap(({ live, key }) => (live === undefined ? key : [])));
  return findings.filter(({ live, key, category, severity }) => {
    if (live?.kind === 'plugin_not_loaded') return !inFiles.has(`plugins.${key}`);
    const isReference = category === 'webhooks' && severity === 'warning' && SECRET_REF.test(key);
    return !(isReference && isRead && live === undefined);
  });
}

const SECRET_REF = /secret_ref$/;
