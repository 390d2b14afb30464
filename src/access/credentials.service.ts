import { fillCredentials, findCredentials, formatCredentialMask } from '../base/credential-ref.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { KnownSecret } from '../base/mask-values.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Plugin } from '../plugin/catalog.ts';
import { guardFirstKey } from './vault.service.ts';
import { purposes } from './vault.ts';
import type { LedgerContext } from '../engine/context.ts';

/** A plugin's configuration with its credentials in it, and what must be told to nobody. */
export interface Revealed {
  readonly config: Readonly<JsonObject>;
  readonly secrets: readonly KnownSecret[];
}

/** Hands credentials out, each time an attempt asks: what was changed or taken away counts at once. */
export interface Credentials extends Service {
  /** Throws CREDENTIAL_NOT_FOUND for one that is not there or past its time. */
  reveal(plugin: Pick<Plugin, 'config'>): Promise<Revealed>;
}

export function makeCredentials(context: LedgerContext): Credentials {
  const { ledger, vault } = context;
  const log = context.log.child('credentials');
  const used = new Set<string>();
  const flush = async (): Promise<void> => {
    if (used.size === 0) return;
    const names = [...used];
    used.clear();
    await ledger.credentials.recordUse(names);
  };
  const logUnrecorded = (error: unknown): void =>
    log.warn('the use of credentials was not noted', { error: messageOf(error) });
  const loop = makeLoop({
    name: 'credentials',
    everyMs: () => limits.tokenUseEveryMs,
    runOnce: flush,
    onError: logUnrecorded,
  });

  const valueOf = async (name: string): Promise<string> => {
    const found = await ledger.credentials.find(name);
    if (found === undefined) throw missing(name, `there is no credential ${name}`);
    if (found.isExpired) throw missing(name, `the credential ${name} is past its time`);
    used.add(name);
    return vault.open(found.sealed, purposes.credential(name));
  };

  return {
    ...loop,
    async reveal({ config }) {
      const names = namesIn(config);
      if (names.length === 0) return { config, secrets: [] };
      const values = new Map<string, string>();
      for (const name of names) values.set(name, await valueOf(name));
      const secrets = [...values].map(([name, value]) => ({
        value,
        shown: formatCredentialMask(name),
      }));
      return { config: fillCredentials(config, (name) => values.get(name) ?? ''), secrets };
    },
    async start() {
      await guardFirstKey(vault, ledger);
      await loop.start();
    },
    async stop() {
      await loop.stop();
      await flush().catch(logUnrecorded);
    },
  };
}

const known = new WeakMap<Readonly<JsonObject>, readonly string[]>();

/** A configuration never changes, so it is searched once. */
function namesIn(config: Readonly<JsonObject>): readonly string[] {
  let names = known.get(config);
  if (names === undefined) {
    names = [...new Set(findCredentials(config).map(({ name }) => name))];
    known.set(config, names);
  }
  return names;
}

function missing(name: string, message: string): DuctileError {
  return new DuctileError('CREDENTIAL_NOT_FOUND', message, {
    place: name,
    hint: `Set it with \`ductile credential set ${name}\`.`,
  });
}
