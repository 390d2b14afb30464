/** Authorization in a process that knows a few tokens and a tenant. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { RUN_TOKEN } from '../../src/base/secrets.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { hashTokenText, makePrincipal, type Principal } from '../../src/access/tokens.service.ts';
import { Exchange } from '../../src/http/exchange.ts';
import {
  createControlAuthenticator,
  createTokenAuthenticator,
  type Authenticator,
} from '../../src/http/authenticate.ts';
import type { ApiRoute } from '../../src/http/router.ts';
import {
  ANONYMOUS,
  authorize,
  identify,
  SCRAPER,
  type Admission,
} from '../../src/operation/authorize.ts';
import type { Context } from '../../src/operation/context.ts';
import type { Operation } from '../../src/operation/define.ts';

const ann = makePrincipal('token:ann', ['jobs:ro']);
const owner = makePrincipal('cli:owner', ['*']);
const guest: Principal = { ...makePrincipal('token:guest', ['*']), tenant: 'acme' };
const runOf = (tenant: string | undefined): Principal => ({
  ...makePrincipal('job:1', ['jobs:ro']),
  tenant,
});

/** The state of the process; a test changes the part that it is about. */
let world: {
  metrics: 'open' | 'token';
  discovery: 'open' | 'token';
  sseQueryToken: boolean;
  trust: 'shared' | 'isolated';
  tenants: string[];
  /** The result of opening the tenant. */
  visit: () => Promise<Principal | undefined> | never;
  asked: string[];
  visits: number;
};

beforeEach(() => {
  // Wrong tokens are forgiven with time.
  vi.useFakeTimers({ toFake: ['performance'] });
  world = {
    metrics: 'token',
    discovery: 'open',
    sseQueryToken: false,
    trust: 'isolated',
    tenants: [],
    visit: () => Promise.resolve(guest),
    asked: [],
    visits: 0,
  };
});

afterEach(() => {
  vi.useRealTimers();
});

const tenantEngine = { tokens: { find: () => world.visit() } };

function visit(slug: string): Promise<unknown> {
  if (!world.tenants.includes(slug)) throw new DuctileError('TENANT_NOT_FOUND', 'no such tenant');
  if (slug === 'asleep') throw new DuctileError('TENANT_UNAVAILABLE', 'not now');
  world.visits += 1;
  return Promise.resolve({ engine: tenantEngine, end: () => (world.visits -= 1) });
}

const runs = new Map([
  [`${RUN_TOKEN}own`, runOf(undefined)],
  [`${RUN_TOKEN}acme`, runOf('acme')],
]);
const tenantKeys = new Map([
  ['theirs', 'acme'],
  ['lost', 'gone'],
  ['tired', 'asleep'],
]);

const engine = {
  get config() {
    const { metrics, discovery, sseQueryToken, trust } = world;
    const api = { allowedOrigins: [], trustedProxies: [], discovery, sseQueryToken };
    return { api, telemetry: { metrics }, tenants: { trust } };
  },
  tokens: {
    find: async (presented: string) => {
      world.asked.push(presented);
      return presented === 'good' ? ann : undefined;
    },
  },
  runTokens: { find: (presented: string) => runs.get(presented) },
  tenants: { visit: async (slug: string) => await visit(slug) },
  ledger: {
    tenants: {
      list: async () => {
        world.asked.push('tenants');
        return world.tenants;
      },
      findByKey: async (kind: string, digest: string) => {
        const known = [...tenantKeys].find(([token]) => hashTokenText(token) === digest);
        return kind === 'token' ? known?.[1] : undefined;
      },
    },
  },
} as unknown as Engine;
const base = { engine };

interface Asking {
  readonly authorization?: string;
  readonly url?: string;
  readonly route?: ApiRoute | undefined;
  /** Headers that came beside those that the parser shows. */
  readonly repeated?: readonly string[];
}

function ask(gate: Authenticator, { authorization, url = '/', route, repeated = [] }: Asking = {}) {
  const headers = authorization === undefined ? {} : { authorization };
  const rawHeaders = [...Object.entries(headers).flat(), ...repeated];
  const socket = { remoteAddress: '10.0.0.1' };
  const request = { headers, rawHeaders, url, socket } as unknown as IncomingMessage;
  return gate.authenticate(new Exchange(request, {} as ServerResponse), route);
}

async function nameOf(admission: Promise<Admission>): Promise<string> {
  return await admission.then(
    ({ principal }) => principal.actor,
    (error: unknown) => (error instanceof DuctileError ? error.code : String(error)),
  );
}

function routeTo(surface: Partial<ApiRoute['surface']>, scope?: Operation['scope']): ApiRoute {
  return { operation: { scope }, surface } as ApiRoute;
}

describe('the API', () => {
  let gate: Authenticator;
  beforeEach(() => {
    gate = createTokenAuthenticator(base, '127.0.0.1');
  });
  const asked = (asking: Asking) => nameOf(ask(gate, asking));

  test.each([
    ['Bearer good', 'token:ann'],
    ['bEARER good', 'token:ann'],
    ['Bearer bad', 'UNAUTHORIZED'],
    ['Bearer', 'UNAUTHORIZED'],
    ['Bearer good more', 'UNAUTHORIZED'],
    ['xBearer good', 'UNAUTHORIZED'],
    ['Basic good', 'UNAUTHORIZED'],
    ['Control good', 'UNAUTHORIZED'],
  ])('%s: %s', async (authorization, expected) => {
    expect(await asked({ authorization })).toBe(expected);
  });

  test('looks at no token that is longer than any can be', async () => {
    const longest = 'x'.repeat(limits.tokenCharsMax);
    await asked({ authorization: `Bearer ${longest}x` });
    expect(world.asked).toEqual([]);
    await asked({ authorization: `Bearer ${longest}` });
    expect(world.asked).toEqual([longest]);
  });

  test('refuses two tokens, and ignores other repeated headers', async () => {
    const authorization = 'Bearer good';
    const also = (name: string) => asked({ authorization, repeated: [name, 'x', 'accept', 'y'] });
    expect(await also('Authorization')).toBe('UNAUTHORIZED');
    expect(await also('accept')).toBe('token:ann');
  });

  test('takes a token from the query of a stream, where the operator wants that', async () => {
    const stream = {
      url: '/events?since=1&token=good',
      route: routeTo({ isStream: true }, 'events:ro'),
    };
    expect(await asked(stream)).toBe('UNAUTHORIZED');
    world.sseQueryToken = true;
    expect(await asked(stream)).toBe('token:ann');
    expect(await asked({ ...stream, authorization: 'Bearer bad' })).toBe('UNAUTHORIZED');
    expect(await asked({ ...stream, url: '/events' })).toBe('UNAUTHORIZED');
    expect(await asked({ ...stream, route: routeTo({}, 'jobs:ro') })).toBe('UNAUTHORIZED');
    expect(await asked({ ...stream, route: undefined })).toBe('UNAUTHORIZED');
  });

  test('is open only where an operation needs no scope', async () => {
    expect(await asked({ route: routeTo({}) })).toBe('anonymous');
    expect(await asked({ route: routeTo({}), authorization: 'Bearer bad' })).toBe('anonymous');
    expect(await asked({ route: routeTo({}), authorization: 'Bearer good' })).toBe('token:ann');
    expect(await asked({ route: routeTo({ openTo: 'monitors' }, 'jobs:ro') })).toBe('UNAUTHORIZED');
    expect(await asked({ route: undefined })).toBe('UNAUTHORIZED');
    world.discovery = 'token';
    expect(await asked({ route: routeTo({}) })).toBe('UNAUTHORIZED');
    expect(await asked({ route: routeTo({ openTo: 'monitors' }) })).toBe('anonymous');
  });

  test('shows metrics to strangers only if the operator allowed it', async () => {
    const route = routeTo({ openTo: 'scrapers' }, 'metrics:ro');
    expect(await asked({ route })).toBe('UNAUTHORIZED');
    world.metrics = 'open';
    expect(await asked({ route })).toBe('scraper');
    expect(await asked({ route: routeTo({}, 'metrics:ro') })).toBe('UNAUTHORIZED');
    await guess();
    expect(await asked({ route, authorization: 'Bearer guess' })).toBe('TRIES_SPENT');
  });

  const guess = async (): Promise<void> => {
    for (let tried = 0; tried < limits.wrongTokensMax; tried += 1) {
      await asked({ authorization: 'Bearer guess' });
    }
  };

  test('throttles guesses, but not at what is open, and not the jobs of this machine', async () => {
    await guess();
    expect(await asked({ authorization: 'Bearer guess' })).toBe('TRIES_SPENT');
    expect(await asked({ authorization: 'Bearer guess', route: routeTo({}) })).toBe('anonymous');
    expect(await asked({ authorization: `Bearer ${RUN_TOKEN}own` })).toBe('job:1');
    expect(await asked({ authorization: `Bearer ${RUN_TOKEN}dead` })).toBe('UNAUTHORIZED');
  });

  test('counts no token of a job that is over', async () => {
    for (let tried = 0; tried <= limits.wrongTokensMax; tried += 1) {
      await asked({ authorization: `Bearer ${RUN_TOKEN}dead` });
    }
    expect(await asked({ authorization: 'Bearer good' })).toBe('token:ann');
  });
});

describe('the control socket', () => {
  const key = 'k'.repeat(20);
  let gate: Authenticator;
  beforeEach(() => {
    gate = createControlAuthenticator(base, { key, owner });
  });
  const asked = (authorization?: string) =>
    nameOf(ask(gate, authorization === undefined ? {} : { authorization }));

  test('belongs to the user that opens it, while there are no tokens', async () => {
    expect(await asked()).toBe('cli:owner');
  });

  test('needs its key from the first tenant on, and for ever', async () => {
    world.tenants = ['acme'];
    expect(await asked()).toBe('UNAUTHORIZED');
    world.tenants = [];
    expect(await asked()).toBe('UNAUTHORIZED');
    expect(await asked(`Control ${key}`)).toBe('cli:owner');
  });

  test('needs none if the operator trusts the plugins of all tenants', async () => {
    world.tenants = ['acme'];
    world.trust = 'shared';
    expect(await asked()).toBe('cli:owner');
    expect(world.asked).toEqual([]);
  });

  test.each([
    [`Control ${'k'.repeat(19)}x`, 'UNAUTHORIZED'],
    [`Control ${'k'.repeat(19)}`, 'UNAUTHORIZED'],
    [`Control ${'k'.repeat(21)}`, 'UNAUTHORIZED'],
    ['Control ', 'UNAUTHORIZED'],
    [`Bearer ${'k'.repeat(20)}`, 'UNAUTHORIZED'],
    ['Bearer good', 'token:ann'],
    ['Bearer bad', 'UNAUTHORIZED'],
  ])('%s: %s', async (authorization, expected) => {
    expect(await asked(authorization)).toBe(expected);
  });

  test('throttles guesses', async () => {
    for (let tried = 0; tried < limits.wrongTokensMax; tried += 1) await asked('Bearer guess');
    expect(await asked('Bearer guess')).toBe('TRIES_SPENT');
  });
});

describe('a token of a tenant', () => {
  beforeEach(() => {
    world.tenants = ['acme', 'asleep'];
  });

  test('leads to its ledger, which is held until all is answered', async () => {
    const admission = await identify(base, 'theirs');
    expect(admission?.principal).toBe(guest);
    expect(admission?.engine).toBe(tenantEngine);
    expect(world.visits).toBe(1);
    admission?.leave();
    expect(world.visits).toBe(0);
  });

  test('is good only while its ledger says so, and lets it go otherwise', async () => {
    world.visit = () => Promise.resolve(undefined);
    expect(await identify(base, 'theirs')).toBeUndefined();
    expect(world.visits).toBe(0);
    world.visit = () => Promise.reject(new Error('broken'));
    await expect(identify(base, 'theirs')).rejects.toThrow('broken');
    expect(world.visits).toBe(0);
  });

  test("that is deleted is unknown; with a ledger that can't be reached it is undecided", async () => {
    expect(await identify(base, 'lost')).toBeUndefined();
    expect(await identify(base, 'nobody’s')).toBeUndefined();
    await expect(identify(base, 'tired')).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
  });

  test('means nothing to a process that has no tenants', async () => {
    const alone = { engine: { ...engine, tenants: undefined } as Engine };
    expect(await identify(alone, 'theirs')).toBeUndefined();
    expect(await identify(alone, `${RUN_TOKEN}acme`)).toBeUndefined();
    expect((await identify(alone, 'good'))?.principal).toBe(ann);
  });

  test('with a running job leads there without asking the ledger for its owner', async () => {
    const admission = await identify(base, `${RUN_TOKEN}acme`);
    expect(admission?.principal).toMatchObject({ actor: 'job:1', tenant: 'acme' });
    expect(admission?.engine).toBe(tenantEngine);
    admission?.leave();
    expect(world.visits).toBe(0);
    expect((await identify(base, `${RUN_TOKEN}own`))?.engine).toBe(engine);
    expect(await identify(base, `${RUN_TOKEN}dead`)).toBeUndefined();
    expect(world.asked).toEqual([]);
  });
});

describe('a request', () => {
  const check = (principal: Principal, operation: Partial<Operation>, input: unknown = {}) =>
    authorize(operation as Operation, { principal, engine: {} } as Context, input);

  test('must be covered by the scopes', () => {
    expect(() => check(ann, { scope: 'jobs:ro' })).not.toThrow();
    expect(() => check(ann, { scope: undefined })).not.toThrow();
    expect(() => check(ann, { scope: 'jobs:rw' })).toThrow(
      expect.objectContaining({
        code: 'FORBIDDEN',
        hint: 'Use a token with the scope jobs:rw.',
      }),
    );
    const scope = (_: Context, input: unknown): string => String(input);
    expect(() => check(ann, { scope }, 'jobs:ro')).not.toThrow();
    expect(() => check(ann, { scope }, 'runs:ro')).toThrow('does not allow');
  });

  test('without a token is what is open, and metrics if allowed', () => {
    expect(() => check(ANONYMOUS, { scope: undefined })).not.toThrow();
    for (const scope of ['metrics:ro', 'jobs:ro']) {
      expect(() => check(ANONYMOUS, { scope })).toThrow('does not allow');
    }
    expect(() => check(SCRAPER, { scope: 'metrics:ro' })).not.toThrow();
    expect(() => check(SCRAPER, { scope: 'jobs:ro' })).toThrow('does not allow');
  });

  test('about the whole system is not for tenants, whatever their scopes', () => {
    expect(() => check(guest, { scope: 'jobs:ro' })).not.toThrow();
    expect(() => check(guest, { scope: 'jobs:ro', isForRoot: true })).toThrow(
      expect.objectContaining({ code: 'FORBIDDEN' }),
    );
    expect(() => check(guest, { scope: undefined, isForRoot: true })).toThrow('operator');
    expect(() => check(owner, { scope: 'jobs:ro', isForRoot: true })).not.toThrow();
    expect(() => check(guest, { scope: 'jobs:ro', isForRoot: false })).not.toThrow();
  });
});
