/** The real program on damaged files: its exit code and its output. */
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { catalogue } from '../../../src/base/error-catalogue.ts';
import type { ErrorCode } from '../../../src/base/errors.ts';
import { launch } from '../../support/crash/server.ts';
import type { Random } from '../../support/crash/random.ts';
import { makePlace } from '../../support/instance.ts';
import type { Trial } from '../support/campaign.ts';
import { damages, makeLedgerFile, noise } from './ledger.ts';

interface DamageCase {
  /**
   * The expected error code; undefined if the program starts, or ends with a code of the ledger.
   */
  readonly code?: ErrorCode;
  /** True if the program starts despite the damage. */
  readonly starts?: boolean;
  readonly damage: (place: Place, random: Random) => void;
}

interface Place {
  readonly config: string;
  readonly ledger: string;
  readonly state: string;
}

const MIB = 1024 * 1024;

const damageCases: Readonly<Record<string, DamageCase>> = {
  ...Object.fromEntries(
    damages.map(({ name, code, apply }) => [
      `ledger: ${name}`,
      {
        ...(code === undefined ? {} : { code: code as ErrorCode }),
        damage: ({ ledger }: Place, random: Random) => apply(ledger, random),
      },
    ]),
  ),
  'configuration: cut off': {
    code: 'CONFIG_INVALID',
    damage: ({ config }) => writeFileSync(config, '{"service": {"name": "half'),
  },
  'configuration: 100 MB': {
    code: 'CONFIG_INVALID',
    damage: ({ config }) => truncateSync(config, 100 * MIB),
  },
  'configuration: a directory': {
    code: 'CONFIG_NOT_FOUND',
    damage: ({ config }) => {
      rmSync(config);
      mkdirSync(config);
    },
  },
  'configuration: a key twice': {
    code: 'CONFIG_INVALID',
    damage: ({ config }) => writeFileSync(config, 'service: {}\nservice: {}\n'),
  },
  'lock: garbage': {
    starts: true,
    damage: ({ state }, random) => writeFileSync(join(state, '.ductile.lock'), noise(random, 3000)),
  },
  'lock: a directory': {
    code: 'LEDGER_UNAVAILABLE',
    damage: ({ state }) => mkdirSync(join(state, '.ductile.lock')),
  },
  'note of the lock: garbage': {
    starts: true,
    damage: ({ state }, random) => writeFileSync(join(state, 'ductile.lock'), noise(random, 300)),
  },
  'lock of the helper: garbage': {
    starts: true,
    damage: ({ state }, random) => writeFileSync(join(state, 'spawner.lock'), noise(random, 3000)),
  },
};

/** Tries the next `count` cases; the next trial continues after them. */
export async function tryProgram({ index, random }: Trial, count: number) {
  const names = Object.keys(damageCases);
  const sums = { programs: 0, programsRefused: 0 };
  for (let offset = 0; offset < count; offset += 1) {
    const name = names[(index * count + offset) % names.length] ?? '';
    sums.programs += 1;
    if (await tryOne(name, random)) sums.programsRefused += 1;
  }
  return sums;
}

async function tryOne(name: string, random: Random): Promise<boolean> {
  const damageCase = damageCases[name];
  if (damageCase === undefined) throw new Error(`there is no case ${name}`);
  const { directory } = await makePlace({ database: 'sqlite' });
  mkdirSync(join(directory, 'plugins'));
  const state = join(directory, 'state');
  mkdirSync(state, { recursive: true });
  const place = { config: join(directory, 'config.yaml'), ledger: join(state, 'ledger.db'), state };
  await makeLedgerFile(place.ledger);
  damageCase.damage(place, random);
  const server = launch(directory);
  const isReady = await server.ready.then(
    () => true,
    () => false,
  );
  const { code: exit, signal } = await server.stop();
  const output = server.complaints;
  const fault = (what: string): Error =>
    new Error(`${name}: ${what} (exit ${signal ?? exit}): ${output.slice(0, 500)}`);
  if (isReady) {
    if (damageCase.code !== undefined) throw fault('it started');
    if (exit !== 0) throw fault('it did not end well');
    return false;
  }
  if (damageCase.starts === true) throw fault('it did not start');
  const errorCode = (Object.keys(catalogue) as ErrorCode[]).find((code) => output.includes(code));
  if (errorCode === undefined || errorCode === 'INTERNAL') throw fault('no diagnosis');
  if (damageCase.code !== undefined && errorCode !== damageCase.code)
    throw fault(`reported as ${errorCode}`);
  const { exit: expected } = catalogue[errorCode];
  if (exit !== expected) throw fault(`${errorCode} ends with ${expected}`);
  if (!/^to do: +\S/m.test(output)) throw fault('without a hint');
  return true;
}
