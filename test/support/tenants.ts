/** Tenants for tests. On PostgreSQL their schemas share a database with other tests. */
import { makeToken } from '../../src/base/ids.ts';
import {
  removeLedger,
  locateTenantLedger,
  type RootLocation,
} from '../../src/ledger/tenant-location.ts';
import type { Reply, TestApi } from './api-server.ts';

/** Creates a unique slug. */
export function makeSlug(): string {
  return `t${makeToken()
    .replaceAll(/[^a-z0-9]/g, '')
    .slice(0, 20)}`;
}

export interface TestTenant {
  readonly slug: string;
  /** Token of its owner. */
  readonly token: string;
  ask(path: string, as?: string): Promise<Reply>;
  post(path: string, body?: object, as?: string): Promise<Reply>;
  /** Creates another token of the tenant. */
  makeToken(
    name: string,
    may: { readonly role?: string; readonly scopes?: string[] },
  ): Promise<string>;
}

export async function makeTenant(api: TestApi, more: object = {}): Promise<TestTenant> {
  const slug = makeSlug();
  const body = JSON.stringify({ slug, ...more });
  const created = await api.ask('/tenants', { body });
  if (created.status !== 201) throw new Error(`no tenant was made: ${created.text}`);
  const token = String(created.body['token']);
  const post: TestTenant['post'] = (path, sent = {}, as = token) =>
    api.ask(path, { body: JSON.stringify(sent), token: as });
  return {
    slug,
    token,
    ask: (path, as = token) => api.ask(path, { token: as }),
    post,
    async makeToken(name, may) {
      const reply = await post('/tokens', { name, ...may });
      if (reply.status !== 201) throw new Error(`no token was made: ${reply.text}`);
      return String(reply.body['token']);
    },
  };
}

/** Drops the ledgers of tenants; on SQLite they are deleted with the directory. */
export async function dropTenants(place: RootLocation, slugs: readonly string[]): Promise<void> {
  if (place.kind === 'sqlite') return;
  for (const slug of slugs) await removeLedger(locateTenantLedger(place, slug));
}
