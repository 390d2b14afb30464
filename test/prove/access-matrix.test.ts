/**
 * Every operation with every kind of token: what a token's scopes, role and ledger do not allow is
 * refused before anything is done, and what they allow is not refused. The operations come from the
 * list that all surfaces share, so a new one is in the matrix as soon as it exists.
 */
import { expect } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { isAtLeast, roleScopes, type Role } from '../../src/base/roles.ts';
import { isOffered, type Operation } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { allows, mayAllow, mayAllowPlugin } from '../../src/access/scopes.ts';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { connect } from '../support/mcp-client.ts';
import { makeTenant } from '../support/tenants.ts';
import { campaign } from './support/campaign.ts';

/** A kind of token, and what it may do. */
interface Holder {
  readonly kind: string;
  readonly token: string | undefined;
  readonly scopes: readonly string[];
  readonly role: Role;
  readonly isTenant: boolean;
}

const NOUNS = ['jobs', 'runs', 'plugin', 'webhooks', 'tokens', 'system', 'packages', 'credentials'];
const scopesOf: Readonly<Record<string, readonly string[]>> = {
  viewer: ['read:*'],
  nothing: [],
  echo: ['echo:rw'],
  directives: ['directives:rw'],
  tenants: ['tenants:rw'],
  ...Object.fromEntries(
    NOUNS.flatMap((noun) => [
      [`${noun}-ro`, [`${noun}:ro`]],
      [`${noun}-rw`, [`${noun}:rw`]],
    ]),
  ),
};

campaign('access-matrix', { trials: 1, timeoutMs: 300_000 }, async ({ random, isShort }) => {
  const api = await startApi({
    tenants: { trust: 'shared' },
    plugins: { echo: { shared: true } },
    api: { auth: { tokens: configured() } },
  });
  try {
    const holders = await makeHolders(api);
    const before = await standing(api);
    const figures = { asked: 0, refused: 0, listed: 0 };
    // The short form tries every operation with some of the tokens, always including the decisive ones.
    const decisive = new Set(['none', 'viewer', 'member', 'tenant-owner']);
    for (const operation of operations) {
      const picked = holders.filter(
        ({ kind }) => !isShort || decisive.has(kind) || random() < 0.25,
      );
      for (const holder of picked) {
        const isRefused = await check(api, operation, holder);
        figures.asked += 1;
        if (isRefused) figures.refused += 1;
      }
    }
    for (const holder of holders) figures.listed += await checkTools(api, holder);
    expect(await standing(api)).toEqual(before);
    return figures;
  } finally {
    await api.close();
  }
});

function configured(): JsonObject[] {
  const owner = { name: 'owner', token: OWNER, scopes: ['*'] };
  const others = Object.entries(scopesOf).map(([name, scopes]) => ({
    name,
    token: `${name}-token-0123456789`,
    scopes: [...scopes],
  }));
  return [owner, ...others];
}

async function makeHolders(api: TestApi): Promise<Holder[]> {
  const tenant = await makeTenant(api);
  const roles = ['admin', 'member'] as const;
  const ofRoot = await Promise.all(
    roles.map(async (role): Promise<Holder> => {
      const body = JSON.stringify({ name: `root-${role}`, role });
      const made = await api.ask('/tokens', { body });
      const token = String(made.body['token']);
      return { kind: role, token, scopes: roleScopes[role], role, isTenant: false };
    }),
  );
  const ofTenant = await Promise.all(
    roles.map(async (role): Promise<Holder> => {
      const token = await tenant.makeToken(`own-${role}`, { role });
      return { kind: `tenant-${role}`, token, scopes: roleScopes[role], role, isTenant: true };
    }),
  );
  const ofConfig = Object.entries(scopesOf).map(([kind, scopes]): Holder => {
    const token = `${kind}-token-0123456789`;
    return { kind, token, scopes, role: 'service', isTenant: false };
  });
  return [
    { kind: 'none', token: undefined, scopes: [], role: 'service', isTenant: false },
    {
      kind: 'wrong',
      token: 'duct_nonsense-0123456789',
      scopes: [],
      role: 'service',
      isTenant: false,
    },
    { kind: 'owner', token: OWNER, scopes: ['*'], role: 'owner', isTenant: false },
    { kind: 'tenant-owner', token: tenant.token, scopes: ['*'], role: 'owner', isTenant: true },
    ...ofRoot,
    ...ofTenant,
    ...ofConfig,
  ];
}

/** The expected result for a holder: `open` to all, let in, refused, or decided by the input. */
function expectedOf(operation: Operation, holder: Holder) {
  const { scope, role: least, isForRoot, offeredWith, effect } = operation;
  const { scopes, role, isTenant, kind } = holder;
  if (scope === undefined) return 'open';
  if (kind === 'none' || kind === 'wrong') return 'unauthenticated';
  if (isForRoot === true && isTenant) return 'forbidden';
  if (typeof scope !== 'function' && !allows(scopes, scope)) return 'forbidden';
  if (typeof scope === 'function') {
    const isPossible =
      offeredWith === 'plugin'
        ? mayAllowPlugin(scopes)
        : mayAllow(scopes, effect === 'read' ? 'read' : 'write');
    return isPossible ? 'either' : 'forbidden';
  }
  return least !== undefined && !isAtLeast(role, least) ? 'forbidden by role' : 'allowed';
}

/** Uses a dry run or a missing id, so that nothing changes. */
async function check(api: TestApi, operation: Operation, holder: Holder): Promise<boolean> {
  const { http, name } = operation;
  if (!isOffered(http)) return false;
  const reply = await ask(api, operation, holder);
  const { status } = reply;
  const expected = expectedOf(operation, holder);
  const about = `${name} as ${holder.kind}: ${status} ${reply.text.slice(0, 200)}`;
  if (expected === 'open' || expected === 'either') expect.soft(status, about).toBeLessThan(504);
  if (expected === 'unauthenticated') expect.soft(status, about).toBe(401);
  if (expected === 'allowed') expect.soft([401, 403], about).not.toContain(status);
  if (expected === 'forbidden') expect.soft(status, about).toBe(403);
  // An input may be wrong before the role of the directive behind it is checked; then nothing is done.
  if (expected === 'forbidden by role') expect.soft([403, 400, 404], about).toContain(status);
  return status === 401 || status === 403;
}

const segments: Readonly<Record<string, string>> = { plugin: 'echo', command: 'poll', kind: 'job' };
/** Fields of most operations that write. */
const fields: Readonly<Record<string, unknown>> = {
  name: 'matrix',
  role: 'member',
  title: 'Matrix',
  value: 'x'.repeat(20),
  type: 'system.pause',
  package: 'none',
  slug: 'matrix',
  source: 'matrix',
  data: {},
  to: '/tmp/ductile-matrix-never-written',
};

async function ask(api: TestApi, { http, input }: Operation, holder: Holder): Promise<Reply> {
  if (!isOffered(http)) throw new Error('it is not on HTTP');
  const path = http.path.replaceAll(
    /:(\w+)\??/g,
    (_, field: string) => segments[field] ?? '0199a1b2',
  );
  const known = Object.entries(fields).filter(([field]) => field in input.shape);
  const body = JSON.stringify({ ...Object.fromEntries(known), dry_run: true });
  const isRead = http.method === 'GET';
  return await api.ask(path, {
    method: http.method,
    token: holder.token,
    headers: { accept: 'application/json' },
    ...(isRead || http.method === 'DELETE' ? {} : { body }),
  });
}

/** Agents are offered what their token may use, and nothing else. */
async function checkTools(api: TestApi, holder: Holder): Promise<number> {
  if (holder.token === undefined || holder.kind === 'wrong') return 0;
  const agent = await connect(`http://127.0.0.1:${api.port}/mcp`, holder.token);
  const names = new Set(await agent.names());
  for (const operation of operations) {
    if (!names.has(operation.name.replaceAll(/[.-]/g, '_'))) continue;
    expect
      .soft(expectedOf(operation, holder), `${operation.name} as ${holder.kind}`)
      .not.toMatch(/^forbidden/);
  }
  return names.size;
}

/** The state that a request could have changed. */
async function standing(api: TestApi): Promise<unknown> {
  const { ledger } = api.server.instance.engine;
  return {
    tokens: (await ledger.tokens.list()).map(({ name }) => name),
    webhooks: (await ledger.webhooks.list()).length,
    tenants: (await ledger.tenants.list()).map(({ slug }) => slug),
    credentials: (await ledger.credentials.list()).length,
    installations: (await ledger.installations.list({})).length,
    directives: (await ledger.directives.list({ limit: 100 })).length,
    off: await ledger.plugins.listDisabled(),
  };
}
