import { statfs } from 'node:fs/promises';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { findCredentials } from '../base/credential-ref.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { settlesWithin } from '../base/timer.ts';
import { findReloadRefusal } from '../engine/reload.ts';
import { findMissingTargets } from '../webhook/check-entry.service.ts';
import { isDefinedElsewhere, toScheduleKey } from '../schedule/timetable.service.ts';
import { describeIsolation } from '../plugin/isolation.ts';
import { userOfTenant } from '../plugin/profile.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { describeDisk } from './findings/disk.ts';
import { figuresOf } from '../job/figures.operations.ts';
import { planDirective } from '../operation/request-directive.ts';
import { readHealth } from '../plugin/health.operations.ts';
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
  summary: 'Examine the process, its ledger, its configuration and its plugins in a few seconds.',
  effect: 'read',
  isForRoot: true,
  scope: 'system:ro',
  input: z.strictObject({}),
  output: z.object({
    ok: z.boolean().describe('nothing failed; there may be warnings'),
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
      empty: 'Nothing was examined.',
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
      const message = `the self-check was not over within ${limits.selfcheckMs / 1000} s`;
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
    return { status: 'ok', detail: `${ready} jobs are ready, ${running} run` };
  },

  async integrity({ engine: { ledger } }) {
    const problems = await ledger.quickCheck();
    if (problems.length > 0) return { status: 'fail', detail: problems.join('; ') };
    return { status: 'ok', detail: 'at a glance; `ductile system check` looks at everything' };
  },

  /** The database's clock is compared with the clocks of all hosts and clients, so they should agree. */
  async clock({ engine: { ledger } }) {
    const aheadMs = Date.now() - fromTimestamp(await ledger.now());
    if (Math.abs(aheadMs) <= CLOCK_MS_MAX) return fine;
    const detail = `this host is ${Math.round(aheadMs / 1000)} s ahead of the database`;
    return { status: 'warn', detail };
  },

  async disk({ engine: { config } }) {
    const { bavail, blocks, bsize } = await statfs(config.state.dir);
    const space = { path: config.state.dir, free: bavail * bsize, size: blocks * bsize };
    const detail = `${Math.floor(space.free / 1024 / 1024)} MiB are free in ${space.path}`;
    return { status: describeDisk(space).length > 0 ? 'warn' : 'ok', detail };
  },

  async configuration(context) {
    const refusal = findReloadRefusal(await planDirective(context, 'config.reload', {}));
    if (refusal === undefined) return fine;
    return { status: 'warn', detail: `a reload would be refused: ${refusal}` };
  },

  async tenants({ engine }) {
    const rows = await engine.ledger.tenants.list();
    if (rows.length === 0) return undefined;
    const bad = rows.flatMap(({ slug, schemaError }) =>
      schemaError === null ? [] : [`${slug} (${schemaError})`],
    );
    if (bad.length > 0) return { status: 'warn', detail: `not up to date: ${bad.join('; ')}` };
    const { trust } = engine.config.tenants;
    const tier = describeIsolation(engine.isolation());
    const how = trust === 'shared' ? 'which are not isolated' : `isolated by ${tier}`;
    const ids = engine.isolation().hasOwnUser && trust === 'isolated' ? listUsers(rows) : '';
    return { status: 'ok', detail: `there are ${rows.length}, ${how}${ids}` };
  },

  plugins({ engine: { catalog } }) {
    const names = [...new Set(catalog.problems.map(({ plugin }) => plugin))];
    if (names.length === 0) return Promise.resolve(fine);
    return Promise.resolve({ status: 'warn', detail: `not loaded: ${names.join(', ')}` });
  },

  async installations({ engine: { ledger } }) {
    const rows = await ledger.installations.list({});
    if (rows.length === 0) return undefined;
    const failures = rows.flatMap(({ slug, lastError }) =>
      lastError === null ? [] : [`${slug} (${lastError})`],
    );
    if (failures.length === 0) return { status: 'ok', detail: `${rows.length} packages` };
    return { status: 'warn', detail: `not in force: ${failures.join('; ')}` };
  },

  /** Checks that the keys of all secrets are here, and that plugins have their credentials. */
  async credentials({ engine: { ledger, catalog, keyIds } }) {
    const counts = await ledger.seals.count();
    const lost = counts.filter(({ keyId }) => !keyIds.includes(keyId)).map(({ keyId }) => keyId);
    if (lost.length > 0) return { status: 'fail', detail: `keys not here: ${lost.join(', ')}` };
    const wanted = [...catalog.plugins.values()].flatMap(({ config }) => findCredentials(config));
    const good = (await ledger.credentials.list()).filter(({ isExpired }) => !isExpired);
    const missing = new Set(wanted.map(({ name }) => name));
    for (const { name } of good) missing.delete(name);
    if (missing.size === 0) return fine;
    return { status: 'warn', detail: `missing or past their time: ${[...missing].join(', ')}` };
  },

  /** Checks that the targets of webhooks exist. Deliveries are refused until they do. */
  async webhooks({ engine }) {
    const rows = await engine.ledger.webhooks.list();
    if (rows.length === 0) return undefined;
    const stranded = [...findMissingTargets(rows, engine)].map(([id, fault]) => `${id} (${fault})`);
    if (stranded.length === 0) return fine;
    return { status: 'warn', detail: `nothing to start: ${stranded.join('; ')}` };
  },

  /** Checks that no other host defines a schedule differently. Only one definition is active. */
  async schedules(context) {
    const rows = await readAllSchedules(context, { retired: false });
    const names = rows
      .filter((row) => isDefinedElsewhere(context.engine.config, row))
      .map(toScheduleKey);
    if (names.length === 0) return fine;
    return { status: 'warn', detail: `defined otherwise by another host: ${names.join(', ')}` };
  },

  async health({ engine: { ledger, catalog } }) {
    const known = [...(await readHealth(ledger, catalog))];
    const unhealthy = known.filter(([, { init }]) => init?.status === 'unhealthy');
    if (unhealthy.length === 0) return fine;
    return { status: 'fail', detail: `unhealthy: ${unhealthy.map(([name]) => name).join(', ')}` };
  },
};

function toFailure(error: unknown): CheckResult {
  return { status: 'fail', detail: messageOf(error) };
}

/** Lists the user ids of tenants, which an operator needs to give them access to a directory. */
function listUsers(rows: readonly { readonly slug: string }[]): string {
  const shown = rows.slice(0, USERS_SHOWN).map(({ slug }) => `${slug} ${userOfTenant(slug)}`);
  return ` (${shown.join(', ')}${rows.length > USERS_SHOWN ? ', …' : ''})`;
}

const USERS_SHOWN = 20;
