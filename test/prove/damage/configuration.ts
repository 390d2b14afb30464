/** Configuration files, and the ways to damage them. */
import {
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DuctileError, messageOf } from '../../../src/base/errors.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { between, type Random } from '../../support/crash/random.ts';
import { lockConfig, makeConfigTree } from '../../support/config-tree.ts';
import { makeDirectory } from '../../support/directory.ts';
import type { Trial } from '../support/campaign.ts';
import { noise } from './ledger.ts';

const files = {
  'config.yaml': `plugin_roots: [p]
include: [tokens.yaml, more.yaml]
state: {path: ./state/ledger.db}
service:
  name: whole
  admission: {verify_integrity_on_boot: true}
routes:
  - {from: a, event_type: b.c, to: d}
`,
  'tokens.yaml': 'tokens: [{name: ci, key: "${CI}", scopes_file: scopes/ci.json}]\n',
  'more.yaml': 'service: {log_level: info, poll_interval: 1s}\n',
  'scopes/ci.json': '{"scopes": ["jobs:ro", "plugin:ro"]}',
};
const names = [...Object.keys(files), '.checksums'];
/** A file other than the locked one is never used if it could give someone rights. */
const high = ['tokens.yaml', 'scopes/ci.json'];
const env = { CI: 'a-secret-of-ci' };
const MIB = 1024 * 1024;
const EXIT_CONFIG = 78;
const PATIENCE_MS = 10_000;

type Damage = (file: string, random: Random) => void;

const damages: Readonly<Record<string, Damage>> = {
  'cut off': onText((text, random) => text.slice(0, between(random, 0, text.length - 1))),
  'a bit flipped': (file, random) => {
    const bytes = readFileSync(file);
    const at = between(random, 0, bytes.length - 1);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << between(random, 0, 7));
    writeFileSync(file, bytes);
  },
  'written twice': onText((text) => text + text),
  'a key twice': onText((text) => `${text}\nservice: {}\nservice: {}\n`),
  'a character deleted': onText((text, random) => {
    const at = between(random, 0, text.length - 1);
    return text.slice(0, at) + text.slice(at + 1);
  }),
  garbage: (file, random) => writeFileSync(file, noise(random, 2000)),
  empty: onText(() => ''),
  '100 MB': (file) => truncateSync(file, 100 * MIB),
  'a directory': (file) => {
    rmSync(file);
    mkdirSync(file);
  },
  deleted: (file) => rmSync(file),
  'nested deeply': onText(() => '['.repeat(20_000)),
  'names that multiply': onText(() => bomb()),
  'a digit changed': onText((text, random) => {
    const digits = [...text.matchAll(/[0-9a-f]/g)];
    const { index } = digits[between(random, 0, digits.length - 1)] ?? { index: 0 };
    return `${text.slice(0, index)}${text[index] === '0' ? '1' : '0'}${text.slice(index + 1)}`;
  }),
};

/** A reader reports the fault soon, or uses the file as it is. */
export async function tryConfigurations({ random }: Trial, count: number) {
  const whole = await makeConfigTree(files);
  lockConfig(whole);
  const directory = join(await makeDirectory(), 'configuration');
  const kinds = Object.entries(damages);
  const sums = { configurations: 0, configurationsRefused: 0 };
  for (let index = 0; index < count; index += 1) {
    rmSync(directory, { recursive: true, force: true });
    cpSync(whole, directory, { recursive: true });
    const [kind = '', damage] = kinds[index % kinds.length] ?? [];
    const name = names[between(random, 0, names.length - 1)] ?? '';
    damage?.(join(directory, name), random);
    sums.configurations += 1;
    if (tryOne(directory, name, `${name}, ${kind}`)) sums.configurationsRefused += 1;
  }
  return sums;
}

function tryOne(directory: string, name: string, what: string): boolean {
  const before = performance.now();
  const { error, warnings } = load(directory);
  const ms = performance.now() - before;
  if (ms > PATIENCE_MS) throw new Error(`${what}: read for ${ms} ms`);
  if (error === undefined) {
    if (!high.includes(name) || !isChanged(directory, name, warnings)) return false;
    throw new Error(`${what}: was taken`);
  }
  if (!(error instanceof DuctileError)) throw new Error(`${what}: ${messageOf(error)}`);
  if (error.kind.exit !== EXIT_CONFIG) throw new Error(`${what}: told as ${error.code}`);
  if (error.hint === '') throw new Error(`${what}: no hint`);
  return true;
}

function load(directory: string): { error?: unknown; warnings: number } {
  try {
    return { warnings: loadConfig({ given: directory, env, home: directory }).warnings.length };
  } catch (error) {
    return { error, warnings: 0 };
  }
}

/** A missing file gives no rights to anyone, but it should be reported. */
function isChanged(directory: string, name: string, warnings: number): boolean {
  const file = join(directory, name);
  if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return warnings === 0;
  return readFileSync(file, 'utf8') !== files[name as keyof typeof files];
}

function onText(change: (text: string, random: Random) => string): Damage {
  return (file, random) => writeFileSync(file, change(readFileSync(file, 'utf8'), random));
}

function bomb(): string {
  const levels = Array.from({ length: 20 }, (_, level) =>
    level === 0 ? 'a0: &a0 [x, x]' : `a${level}: &a${level} [*a${level - 1}, *a${level - 1}]`,
  );
  return `${levels.join('\n')}\n`;
}
