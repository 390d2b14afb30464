import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { settlesWithin } from '../base/timer.ts';
import { findReloadRefusal } from '../engine/reload.ts';
import { findMissingTargets } from '../webhook/check-entry.service.ts';
import { isDefinedElsewhere } from '../schedule/timetable.service.ts';
import { describeIsolation } from '../plugin/isolation.ts';
import { userOfTenant } from '../plugin/profile.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import type { LiveFinding } from './finding.ts';
import type { ListedFinding } from './findings/all.ts';
import {
  credentialKeyMissing,
  credentialMissing,
  payloadKeyMissing,
} from './findings/credentials.ts';
import { diskFull, isNearlyFull, readDiskSpace, toMib } from './findings/disk.ts';
import { packageInactive, tenantClosed } from './findings/installations.ts';
import { pluginNotLoaded, pluginNotSetUp } from './findings/plugins.ts';
import { scheduleRedefined } from './findings/schedules.ts';
import { webhookStranded } from './findings/webhooks.ts';
import { toLiveSubject } from './ledger-findings.operations.ts';
import { figuresOf } from '../job/figures.operations.ts';
import { planDirective } from '../operation/request-directive.ts';
import { readAllSchedules } from '../schedule/operations.ts';
import * as z from 'zod';

const CLOCK_MS_MAX = 5000;

const checkShape = z.object({
  name: z.string(),
  status: z.enum(['ok', 'warn', 'fail']),
  detail: z.string().nullable(),
});

type CheckResult = Omit<z.output<typeof checkShape>, 'name'>;
/** Returns undefined if there is nothing to check. */
type SelfCheck = (context: Context) => Promise<CheckResult | undefined>;

export const systemSelfcheck = defineOperation({
  name: 'system.selfcheck',
  summary: 'Check the process, its database, its configuration and its plugins in a few seconds.',
  effect: 'read',
  isForRoot: true,
  scope: 'system:ro',
  input: z.strictObject({}),
  output: z.object({
    ok: z.boolean().describe('true if no check failed; there may be warnings'),
    captured_at: z.string(),
    checks: z.array(checkShape),
  }),
  errors: ['DEADLINE_EXCEEDED'],
  http: { method: 'GET', path: '/system/selfcheck' },
  cli: {
    examples: ['ductile system selfcheck', 'ductile system selfcheck --json'],
    exitCode: ({ ok }) => (ok === true ? 0 : 1),
    table: {
      rows: 'checks',
      columns: [
        ['CHECK', 'name'],
        ['STATUS', 'status'],
        ['DETAIL', 'detail'],
      ],
      empty: 'No checks were run.',
    },
  },
  async run(context) {
    const checks: z.output<typeof checkShape>[] = [];
    let pending = '';
    const work = (async () => {
      for (const [name, check] of Object.entries(selfChecks)) {
        pending = name;
        const found = await check(context).catch(toFailure);
        if (found !== undefined) checks.push({ name, ...found });
      }
    })();
    if (!(await settlesWithin(work, limits.selfcheckMs))) {
      const message = `the self-check did not finish within ${limits.selfcheckMs / 1000} s`;
      throw new DuctileError('DEADLINE_EXCEEDED', message, { place: pending, details: { checks } });
    }
    const ok = checks.every(({ status }) => status !== 'fail');
    return { ok, captured_at: toTimestamp(Date.now()), checks };
  },
});

const fine: CheckResult = { status: 'ok', detail: null };

const selfChecks: Readonly<Record<string, SelfCheck>> = {
  engine({ engine }) {
    const { state, detail } = engine.status();
    if (state !== 'degraded') return Promise.resolve({ status: 'ok', detail: state });
    return Promise.resolve({ status: 'fail', detail: detail ?? state });
  },

  async ledger({ engine: { ledger } }) {
    const { ready, running } = (await figuresOf(ledger).queue.get()).value;
    return { status: 'ok', detail: `${ready} jobs are ready, ${running} are running` };
  },

  async integrity({ engine: { ledger } }) {
    const problems = await ledger.quickCheck();
    if (problems.length > 0) return { status: 'fail', detail: problems.join('; ') };
    return { status: 'ok', detail: 'quick check; `ductile system check` checks everything' };
  },

  /** The database's clock is compared with the clocks of all hosts and clients, so they should agree. */
  async clock({ engine: { ledger } }) {
    const aheadMs = Date.now() - fromTimestamp(await ledger.now());
    if (Math.abs(aheadMs) <= CLOCK_MS_MAX) return fine;
    const detail = `this host is ${Math.round(aheadMs / 1000)} s ahead of the database`;
    return { status: 'warn', detail };
  },

  async disk({ engine: { config } }) {
    const space = await readDiskSpace(config.state.dir);
    const detail = `${toMib(space.free)} MiB are free in ${space.path}`;
    return isNearlyFull(space) ? report('warn', [diskFull.describe(space)]) : { ...fine, detail };
  },

  async configuration(context) {
    const refusal = findReloadRefusal(await planDirective(context, 'config.reload', {}));
    if (refusal === undefined) return fine;
    return { status: 'warn', detail: `a reload would be refused: ${refusal}` };
  },

  async tenants({ engine }) {
    const rows = await engine.ledger.tenants.list();
    if (rows.length === 0) return undefined;
    const closed = rows.filter(({ schemaError }) => schemaError !== null);
    if (closed.length > 0) return report('warn', closed.map(tenantClosed.describe));
    const { trust } = engine.config.tenants;
    const tier = describeIsolation(engine.isolation());
    const how = trust === 'shared' ? 'not isolated' : `isolated by ${tier}`;
    const ids = engine.isolation().hasOwnUser && trust === 'isolated' ? listUsers(rows) : '';
    const count = `${rows.length} ${rows.length === 1 ? 'tenant' : 'tenants'}`;
    return { status: 'ok', detail: `${count}, ${how}${ids}` };
  },

  plugins({ engine: { catalog } }) {
    const names = [...new Set(catalog.problems.map(({ plugin }) => plugin))];
    const found = names.map((plugin) =>
      pluginNotLoaded.describe({ plugin, catalog, isRoot: true }),
    );
    return Promise.resolve(report('warn', found));
  },

  async installations({ engine: { ledger } }) {
    const rows = await ledger.installations.list({});
    if (rows.length === 0) return undefined;
    const inactive = rows.filter(({ lastError }) => lastError !== null);
    if (inactive.length === 0) return { ...fine, detail: `${rows.length} packages` };
    return report('warn', inactive.map(packageInactive.describe));
  },

  /** Checks that the keys of all secrets are here, and that plugins have their credentials. */
  async credentials(context) {
    const keys = await findAll('fail', context, credentialKeyMissing, payloadKeyMissing);
    return keys.status === 'ok' ? await findAll('warn', context, credentialMissing) : keys;
  },

  /** Checks that the targets of webhooks exist. Deliveries are refused until they do. */
  async webhooks({ engine }) {
    const rows = await engine.ledger.webhooks.list();
    if (rows.length === 0) return undefined;
    const stranded = [...findMissingTargets(rows, engine)];
    return report(
      'warn',
      stranded.map(([id, reason]) => webhookStranded.describe({ id, reason })),
    );
  },

  /** Checks that no other host defines a schedule differently. Only one definition is active. */
  async schedules(context) {
    const rows = await readAllSchedules(context, { retired: false });
    const others = rows.filter((row) => isDefinedElsewhere(context.engine.config, row));
    return report('warn', others.map(scheduleRedefined.describe));
  },

  health: (context) => findAll('fail', context, pluginNotSetUp),
};

/** Looks for findings of `doctor`. The messages of those that are found are the detail. */
async function findAll(
  status: CheckResult['status'],
  { engine }: Context,
  ...definitions: readonly ListedFinding[]
): Promise<CheckResult> {
  const context = { ...toLiveSubject(engine, true), now: await engine.ledger.now() };
  const found = await Promise.all(definitions.map((definition) => definition.check(context)));
  return report(status, found.flat());
}

function report(status: CheckResult['status'], found: readonly LiveFinding[]): CheckResult {
  if (found.length === 0) return fine;
  return { status, detail: found.map(({ message }) => message).join(' ') };
}

function toFailure(error: unknown): CheckResult {
  return { status: 'fail', detail: messageOf(error) };
}

/** Lists the user ids of tenants, which an operator needs to give them access to a directory. */
function listUsers(rows: readonly { readonly slug: string }[]): string {
  const shown = rows.slice(0, USERS_SHOWN).map(({ slug }) => `${slug} ${userOfTenant(slug)}`);
  return ` (${shown.join(', ')}${rows.length > USERS_SHOWN ? ', …' : ''})`;
}

const USERS_SHOWN = 20;
