/** The program as people start it, on what was damaged: how it ends, and what it says. */
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { catalogue, type ErrorCode } from '../../../src/base/errors.ts';
import { launch } from '../../support/crash/server.ts';
import type { Random } from '../../support/crash/random.ts';
import { makePlace } from '../../support/instance.ts';
import type { Trial } from '../support/campaign.ts';
import { damages, makeLedgerFile, noise } from './ledger.ts';

interface Scene {
  /** It ends with this; undefined: it starts, or ends with one of the ledger's. */
  readonly code?: ErrorCode;
  /** It starts all the same. */
  readonly starts?: boolean;
  readonly damage: (place: Place, random: Random) => void;
}

interface Place {
  readonly config: string;
  readonly ledger: string;
  readonly state: string;
}

const MIB = 1024 * 1024;

const scenes: Readonly<Record<string, Scene>> = {
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

/** A trial tries some of them; the next one goes on behind them. */
export async function tryProgram({ index, random }: Trial, count: number) {
  const names = Object.keys(scenes);
  const sums = { programs: 0, programsRefused: 0 };
  for (let offset = 0; offset < count; offset += 1) {
    const name = names[(index * count + offset) % names.length] ?? '';
    sums.programs += 1;
    if (await tryOne(name, random)) sums.programsRefused += 1;
  }
  return sums;
}

async function tryOne(name: string, random: Random): Promise<boolean> {
  const scene = scenes[name];
  if (scene === undefined) throw new Error(`there is no scene ${name}`);
  const { directory } = await makePlace({ database: 'sqlite' });
  mkdirSync(join(directory, 'plugins'));
  const state = join(directory, 'state');
  mkdirSync(state, { recursive: true });
  const place = { config: join(directory, 'config.yaml'), ledger: join(state, 'ledger.db'), state };
  await makeLedgerFile(place.ledger);
  scene.damage(place, random);
  const server = launch(directory);
  const isReady = await server.ready.then(
    () => true,
    () => false,
  );
  const { code: exit, signal } = await server.stop();
  const said = server.complaints;
  const fault = (what: string): Error =>
    new Error(`${name}: ${what} (exit ${signal ?? exit}): ${said.slice(0, 500)}`);
  if (isReady) {
    if (scene.code !== undefined) throw fault('it started');
    if (exit !== 0) throw fault('it did not end well');
    return false;
  }
  if (scene.starts === true) throw fault('it did not start');
  const told = (Object.keys(catalogue) as ErrorCode[]).find((code) => said.includes(code));
  if (told === undefined || told === 'INTERNAL') throw fault('no diagnosis');
  if (scene.code !== undefined && told !== scene.code) throw fault(`told as ${told}`);
  const { exit: expected } = catalogue[told];
  if (exit !== expected) throw fault(`${told} ends with ${expected}`);
  if (!/^to do: +\S/m.test(said)) throw fault('without a hint');
  return true;
}
