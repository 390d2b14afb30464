import { relative } from 'node:path';
import { stringify } from 'yaml';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import { parseAddress, valueAt } from './address.ts';
import { openBackup } from './backup.ts';
import type { Config } from './config.ts';
import { keyText } from './document.ts';
import { redact, compareKeys, type KeyChange } from './effective.ts';
import {
  findLockedPlugins,
  lockFiles,
  type ConfigLock,
  type LockReading,
  type PluginHashes,
} from './integrity.ts';
import { makeJsonSchema } from './json-schema.ts';
import { readConfig } from './load.ts';
import type { ConfigReading } from './load.ts';
import { configInvalid } from './problem.ts';
import { compareActiveConfig, type ActiveComparison } from '../insight/findings/configuration.ts';
import { openReadonlyLedger } from '../ledger/open-readonly.ts';
import { loadCatalog } from '../plugin/catalog.ts';
import { findPluginDrift, hashPlugins } from '../plugin/lock.ts';
import { defineOperation } from '../operation/define.ts';
import { loadOptions } from './check.operations.ts';

/** The reason why HTTP doesn't offer these operations. */
export const FILES_HERE = 'it works on files of the machine where you run it';
/** The fields of operations that work only on files, where the command is typed. */
export const onFiles = { isForRoot: true, needs: 'files', http: { absent: FILES_HERE } } as const;
const tierShape = z.enum(['high', 'operational']);
export const addressField = z
  .string()
  .describe('a key such as service.max_workers, or an entity such as plugin:echo');

export const lockConfig = defineOperation({
  name: 'config.lock',
  summary: 'Lock the configuration files and the plugins in their current state.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({}),
  output: z.object({
    manifest: z.string(),
    files: z.array(z.object({ path: z.string(), tier: tierShape, hash: z.string() })),
    plugins: z
      .array(z.object({ name: z.string(), manifest: z.string(), entrypoint: z.string() }))
      .describe('hashes of the manifest and the entrypoint of each plugin'),
  }),
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND'],
  cli: { examples: ['ductile config lock', 'ductile config lock --dry-run'] },
  run(context) {
    const reading = readConfig(loadOptions(context));
    const { found, config } = requireConfig(reading);
    const { directory } = found;
    const hashes = hashesToLock(config, reading.manifest);
    const manifest = lockFiles(directory, reading.files, new Date().toISOString(), hashes);
    const files = reading.files.map(({ path, tier, hash }) => ({
      path: relative(directory, path),
      tier,
      hash,
    }));
    const plugins = [...(hashes ?? [])].map(([name, own]) => ({ name, ...own }));
    return Promise.resolve({ manifest, files, plugins });
  },
  plan(context) {
    const { drift, files, config, manifest } = requireConfig(readConfig(loadOptions(context)));
    const now = [...(hashesToLock(config, manifest) ?? [])];
    const before = findLockedPlugins(manifest);
    const changes = [
      ...drift.map(({ path, change }) => `${path} will be ${changeWords[change]}.`),
      ...now.flatMap(([name, hashes]) => {
        const change = compareHashes(hashes, before?.get(name));
        return change === undefined ? [] : [`Plugin ${name} will be ${changeWords[change]}.`];
      }),
    ];
    const same = `All ${files.length} files and ${now.length} plugins are already locked.`;
    return Promise.resolve(changes.length === 0 ? [same] : changes);
  },
});

/**
 * Returns the hashes of plugins for the lock. If the plugins can't be loaded, their previous hashes stay.
 */
function hashesToLock(config: Config, manifest: LockReading): ConfigLock['plugins'] {
  try {
    return hashPlugins(loadCatalog(config));
  } catch (thrown) {
    if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_INVALID') throw thrown;
    return findLockedPlugins(manifest);
  }
}

function compareHashes(
  now: PluginHashes,
  before: PluginHashes | undefined,
): 'added' | 'changed' | undefined {
  if (before === undefined) return 'added';
  const isSame = now.manifest === before.manifest && now.entrypoint === before.entrypoint;
  return isSame ? undefined : 'changed';
}

const changeWords = {
  added: 'added to the lock',
  changed: 'locked in its current state',
  removed: 'removed from the lock',
};

export const showConfig = defineOperation({
  name: 'config.show',
  summary: 'Show the configuration as written in its files, without secrets.',
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  needs: 'files',
  input: z.strictObject({
    path: addressField.optional(),
    effective: z.boolean().optional().describe('include the defaults of keys that are not set'),
  }),
  output: z.object({ config: z.unknown(), yaml: z.string() }),
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: '`GET /config/view` shows the active configuration' },
  cli: {
    positionals: ['path'],
    examples: [
      'ductile config show',
      'ductile config show plugin:echo',
      'ductile config show service --effective',
    ],
  },
  run(context, { path, effective = false }) {
    const whole = showWhole(readConfig(loadOptions(context)), effective);
    const config = path === undefined ? whole : valueAt(whole, parseAddress(path, whole));
    if (config === undefined) throw notSet(path ?? '');
    return Promise.resolve({ config, yaml: stringify(config) });
  },
});

export const getConfig = defineOperation({
  name: 'config.get',
  summary: 'Show the value of one key and where it is set.',
  effect: 'read',
  ...onFiles,
  scope: 'config:ro',
  input: z.strictObject({ path: addressField }),
  output: z.object({
    key: z.string(),
    value: z.unknown(),
    source: z.string().describe('file, line and column, or `default`'),
  }),
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  cli: {
    positionals: ['path'],
    examples: ['ductile config get service.max_workers', 'ductile config get plugin:echo.enabled'],
  },
  run(context, { path: written }) {
    const reading = readConfig(loadOptions(context));
    const whole = showWhole(reading, true);
    const path = parseAddress(written, whole);
    const value = valueAt(whole, path);
    if (value === undefined) throw notSet(written);
    const isSet = valueAt(reading.document.value, path) !== undefined;
    const source = isSet ? reading.document.placeOf(path) : 'default';
    return Promise.resolve({ key: keyText(path), value, source });
  },
});

const diffShape = z.object({
  same: z.boolean(),
  compared_with: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      tier: tierShape,
      change: z.enum(['added', 'changed', 'removed']),
    }),
  ),
  keys: z
    .array(
      z.object({
        key: z.string(),
        before: z.string().nullable(),
        after: z.string().nullable(),
      }),
    )
    .describe(
      'keys that differ from the backup or the last loaded configuration; secrets are masked',
    ),
  keys_compared_with: z.string().nullable().describe('null if no service has loaded one'),
  plugins: z
    .array(z.object({ key: z.string(), file: z.string(), change: z.string() }))
    .describe('used plugins that differ from the lock; empty without a lock, or with a backup'),
});

export const diffConfig = defineOperation({
  name: 'config.diff',
  summary: 'Compare the configuration with its lock and the active one, or with a backup.',
  effect: 'read',
  ...onFiles,
  scope: 'config:ro',
  input: z.strictObject({
    backup: z.string().optional().describe('an archive that `config backup` wrote'),
  }),
  output: diffShape,
  errors: ['ARCHIVE_INVALID', 'CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  cli: {
    paths: ['backup'],
    examples: ['ductile config diff', 'ductile config diff --backup config.tar.gz'],
    exitCode: ({ same }) => (same === true ? 0 : 1),
  },
  async run(context, { backup }) {
    const options = loadOptions(context);
    const reading = readConfig(options);
    if (backup !== undefined) return compareBackup(reading, backup);
    if (reading.manifest.state === 'unusable') throw configInvalid([reading.manifest.problem]);
    const files = reading.drift.map(({ path, tier, change }) => ({ path, tier, change }));
    const locked = reading.manifest.state === 'sound';
    const since = locked ? `the lock of ${reading.manifest.manifest.generatedAt}` : 'no lock';
    const plugins = listPluginDrift(reading);
    const active = await readActive(reading);
    const keys = (active?.changes ?? []).map(toKeyRow);
    const same = files.length === 0 && plugins.length === 0 && keys.length === 0;
    const loaded = active && `the configuration that process ${active.snapshot.processId} loaded`;
    const keysWith = active === undefined ? null : `${loaded} at ${active.snapshot.createdAt}`;
    const compared = { compared_with: since, keys_compared_with: keysWith };
    return { same, ...compared, files, keys, plugins };
  },
});

export const schemaConfig = defineOperation({
  name: 'config.schema',
  summary: 'Print the JSON Schema of the configuration, for editors.',
  effect: 'read',
  isForRoot: true,
  scope: undefined,
  needs: 'files',
  input: z.strictObject({}),
  output: z.object({ schema: z.record(z.string(), z.unknown()) }),
  errors: [],
  http: { absent: 'it is part of the program, and the same on every machine' },
  cli: { examples: ['ductile config schema > ductile.schema.json'] },
  run() {
    return Promise.resolve({ schema: makeJsonSchema() });
  },
});

export const viewConfig = defineOperation({
  name: 'config.view',
  summary: 'Show the active configuration, without secrets.',
  effect: 'read',
  isForRoot: true,
  scope: 'config:ro',
  input: z.strictObject({}),
  output: z.object({
    file: z.string(),
    fingerprint: z.string(),
    files: z.array(z.object({ path: z.string(), tier: tierShape, hash: z.string() })),
    config: z.record(z.string(), z.unknown()),
  }),
  errors: [],
  http: { method: 'GET', path: '/config/view' },
  cli: {
    command: 'config show --active',
    examples: ['ductile config show --active', 'ductile config show --active --json'],
  },
  run({ engine: { config } }) {
    const { file, fingerprint, files, redacted } = config;
    return Promise.resolve({
      file,
      fingerprint,
      files: files.map(({ path, tier, hash }) => ({ path, tier, hash })),
      config: { ...redacted },
    });
  },
});

function compareBackup(now: ConfigReading, backup: string): z.output<typeof diffShape> {
  const before = openBackup(backup).reading;
  const [old, current] = [listFiles(before), listFiles(now)];
  const files = [...new Set([...old.keys(), ...current.keys()])].toSorted().flatMap((path) => {
    const [was, is] = [old.get(path), current.get(path)];
    if (was?.hash === is?.hash) return [];
    const change = was === undefined ? 'added' : is === undefined ? 'removed' : 'changed';
    return [{ path, tier: (is ?? was)?.tier ?? 'operational', change } as const];
  });
  const keys = compareKeys(before.document.value, now.document.value).map(toKeyRow);
  const compared = { compared_with: backup, keys_compared_with: backup };
  return { same: files.length === 0, ...compared, files, keys, plugins: [] };
}

function toKeyRow({ key, before, after }: KeyChange): z.output<typeof diffShape>['keys'][number] {
  return { key, before: before ?? null, after: after ?? null };
}

/** Compares with the active configuration; undefined if the database can't be opened. */
async function readActive({ config }: ConfigReading): Promise<ActiveComparison | undefined> {
  if (config === undefined) return undefined;
  try {
    const ledger = await openReadonlyLedger(config.state);
    try {
      return await compareActiveConfig(config.file, ledger);
    } finally {
      await ledger.close();
    }
  } catch (error) {
    if (error instanceof DuctileError) return undefined;
    throw error;
  }
}

/** Lists differences of plugins; `config check` reports plugins that don't load. */
function listPluginDrift({ config }: ConfigReading): z.output<typeof diffShape>['plugins'] {
  if (config === undefined) return [];
  try {
    const drift = findPluginDrift(config, loadCatalog(config));
    return drift.map(({ key, place, message }) => ({ key, file: place, change: message }));
  } catch {
    return [];
  }
}

function listFiles({ files, found }: ConfigReading) {
  return new Map(files.map((file) => [relative(found.directory, file.path), file]));
}

/** Shows the keys as written, or with defaults. Only a valid configuration has defaults. */
function showWhole(reading: ConfigReading, effective: boolean): Json {
  if (effective) return requireConfig(reading).config.redacted;
  return redact(reading.document.value);
}

function requireConfig<R extends ConfigReading>(reading: R) {
  const { config } = reading;
  if (config === undefined) throw configInvalid(reading.problems);
  return { ...reading, config };
}

function notSet(path: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${path} is not set`, {
    place: 'path',
    hint: 'Run `ductile config show --effective` to see all keys.',
  });
}
