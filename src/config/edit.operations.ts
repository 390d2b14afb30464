import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { parseAddress, valueAt } from './address.ts';
import { applyEdit, parseValue, planEdit, planRemoval, type ConfigEdit } from './edit.ts';
import type { KeyPath } from './document.ts';
import { redact } from './effective.ts';
import type { Finding } from './findings.ts';
import { readConfig, type LoadOptions, type ConfigReading } from './load.ts';
import { configInvalid, sentence } from './problem.ts';
import { addressField, onFiles } from './operations.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation, type JsonOutput } from '../operation/define.ts';
import { listConfigFindings, loadOptions } from './check.operations.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';
import { join } from 'node:path';
import { quoteShell } from '../base/text.ts';
import { makeToken } from '../base/ids.ts';
import {
  listBackup,
  openBackup,
  restoreBackup,
  formatStamp,
  writeBackup,
  type RestorePlan,
} from './backup.ts';
import { homeDirectory } from './find.ts';
import { findLockedPlugins, lockFiles } from './integrity.ts';
import { writeStarter } from './starter.ts';

const apply = z.boolean().optional().describe('write the change (required unless --dry-run)');

const changed = z.object({
  key: z.string(),
  before: z.unknown(),
  after: z.unknown().describe('new value; absent if the key is no longer set'),
  file: z.string(),
  backup: z.string(),
  locked: z.boolean().describe('true if the lock of the file was renewed'),
  validation: findingsShape,
});

export const setConfig = defineOperation({
  name: 'config.set',
  summary: 'Change one key in its file. Comments are kept, and an invalid result is rejected.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({
    assignment: z
      .string()
      .regex(/^[^=]+=/, 'must be key=value')
      .describe('key=value, such as plugin:echo.enabled=false'),
    apply,
  }),
  output: changed,
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  cli: {
    positionals: ['assignment'],
    examples: [
      'ductile config set service.max_workers=4 --dry-run',
      'ductile config set plugin:echo.enabled=false --apply',
    ],
    exitCode: toExitCode,
  },
  run(context, { assignment, apply: isMeant }) {
    return Promise.resolve(change(planSet(context, assignment), isMeant));
  },
  plan: (context, { assignment }) => Promise.resolve(describe(planSet(context, assignment))),
});

export const unsetConfig = defineOperation({
  name: 'config.unset',
  summary: 'Remove one key, or one entry of a list, from its file.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({ path: addressField, apply }),
  output: changed,
  errors: ['CONFIG_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  cli: {
    positionals: ['path'],
    examples: [
      'ductile config unset service.max_workers --dry-run',
      'ductile config unset plugin:echo.schedules.0 --apply',
    ],
    exitCode: toExitCode,
  },
  run(context, { path, apply: isMeant }) {
    return Promise.resolve(change(planUnset(context, path), isMeant));
  },
  plan: (context, { path }) => Promise.resolve(describe(planUnset(context, path))),
});

/** Exits with 2 when the change is done but has findings; 1 is for refused changes. */
function toExitCode({ validation }: JsonOutput): number {
  const { errors, warnings } = findingsShape.parse(validation);
  return errors + warnings === 0 ? 0 : 2;
}

interface PlannedEdit {
  readonly edit: ConfigEdit;
  readonly reading: ConfigReading;
  readonly options: LoadOptions;
  /** Without secrets; undefined when not set. */
  readonly before: unknown;
  readonly after: unknown;
}

function change(
  { edit, reading, options, before, after }: PlannedEdit,
  isMeant = false,
): z.output<typeof changed> {
  if (!isMeant) {
    const message = 'add --apply to write the change, or --dry-run to preview it';
    throw new DuctileError('INPUT_INVALID', message, {
      place: 'apply',
      hint: 'Nothing was changed.',
    });
  }
  const applied = applyEdit(edit, reading, options, new Date().toISOString());
  const validation = showFindings(listConfigFindings(readConfig(options)));
  return { key: edit.key, before, after, file: edit.file, ...applied, validation };
}

function describe({ edit, before, after }: PlannedEdit): string[] {
  const [was, is] = [before, after].map((value) => JSON.stringify(value) ?? 'not set');
  return [`${edit.key} in ${edit.file} will change from ${was} to ${is}.`];
}

function planSet(context: Context, assignment: string): PlannedEdit {
  const at = assignment.indexOf('=');
  const value = parseValue(assignment.slice(at + 1));
  return planned(context, assignment.slice(0, at), (reading, path, options) =>
    planEdit(reading, path, value, options),
  );
}

function planUnset(context: Context, path: string): PlannedEdit {
  const made = planned(context, path, planRemoval);
  // After the removal, another entry of the list has this index.
  return /\[\d+\]$/.test(made.edit.key) ? { ...made, after: undefined } : made;
}

function planned(
  context: Context,
  written: string,
  plan: (reading: ConfigReading, path: KeyPath, options: LoadOptions) => ConfigEdit,
): PlannedEdit {
  const options = loadOptions(context);
  const reading = readConfig(options);
  const path = parseAddress(written, reading.document.value);
  const edit = plan(reading, path, options);
  const known = new Set(listErrors(reading));
  const faults = listConfigFindings(edit.reading).filter(
    (finding) => isError(finding) && !known.has(sentence(finding)),
  );
  if (faults.length > 0) throw configInvalid(faults);
  const show = ({ document }: ConfigReading): unknown => {
    const value = valueAt(document.value, path);
    return value === undefined ? undefined : redact(value, path);
  };
  return { edit, reading, options, before: show(reading), after: show(edit.reading) };
}

/**
 * Existing errors don't prevent other changes. Their locations can move, so they are compared by
 * text.
 */
function listErrors(reading: ConfigReading): string[] {
  return listConfigFindings(reading).filter(isError).map(sentence);
}

function isError({ severity, category }: Finding): boolean {
  return severity === 'error' && category !== 'integrity';
}

const ADDRESS = /^([^\s:]+|\[[\da-f:]+\]):\d{1,5}$/i;
const ADDRESS_RULE = 'must be an address such as 127.0.0.1:8080';

export const initConfig = defineOperation({
  name: 'config.init',
  summary: 'Create a working configuration.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({
    directory: z
      .string()
      .optional()
      .describe('directory of the configuration (default: ~/.config/ductile)'),
    api: z
      .union([z.boolean(), z.string().regex(ADDRESS, ADDRESS_RULE)], { error: ADDRESS_RULE })
      .default(true)
      .describe('address of the HTTP API, or false for no API (default: 127.0.0.1:8080)'),
    force: z.boolean().optional().describe('replace an existing config.yaml'),
  }),
  output: z.object({
    directory: z.string(),
    files: z.array(z.string()),
    url: z.string().nullable().describe('URL of the API while the service runs'),
    token: z.string().nullable().describe('token for the API; shown only now, and stored in .env'),
    next: z.array(z.string()).describe('commands to run next'),
  }),
  errors: ['CONFIG_EXISTS', 'CONFIG_INVALID', 'INPUT_INVALID'],
  cli: {
    positionals: ['directory'],
    paths: ['directory'],
    flags: { api: '--api <address>' },
    examples: [
      'ductile config init',
      'ductile config init ./automation --api 127.0.0.1:9000',
      'ductile config init --no-api',
    ],
  },
  run(context, { directory: given, api, force = false }) {
    const directory = given ?? homeOf(context);
    const shippedPlugins = context.configFiles?.shippedPlugins ?? '';
    const listen = addressOf(api);
    const now = new Date().toISOString();
    const { files, token = null } = writeStarter({
      directory,
      shippedPlugins,
      replace: force,
      api: listen === undefined ? undefined : { listen, token: makeToken() },
      now,
    });
    const url = listen === undefined ? null : `http://${listen}`;
    const next = listNextCommands(
      directory === homeDirectory(undefined) ? '' : ` --config ${quoteShell(directory)}`,
    );
    return Promise.resolve({ directory, files: [...files], url, token, next });
  },
  plan(context, { directory = homeOf(context), api }) {
    const listen = addressOf(api);
    const token = `A token will be created and stored in ${join(directory, '.env')}.`;
    return Promise.resolve([
      `${join(directory, 'config.yaml')} and AGENTS.md will be written, and locked.`,
      ...(listen === undefined ? [] : [token]),
    ]);
  },
});

const USUAL_ADDRESS = '127.0.0.1:8080';

function addressOf(api: boolean | string): string | undefined {
  if (typeof api === 'string') return api;
  return api ? USUAL_ADDRESS : undefined;
}

/** The second command runs the job itself when no service runs. */
function listNextCommands(where: string): string[] {
  return [
    `ductile system start${where}`,
    `ductile plugin run echo --payload '{"hello": "you"}'${where}`,
    `ductile job list${where}`,
  ];
}

export const backupConfig = defineOperation({
  name: 'config.backup',
  summary: 'Pack all files of the configuration into an archive.',
  effect: 'write',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({
    to: z
      .string()
      .optional()
      .describe('the archive (default: backup-<time>.tar.gz in the configuration directory)'),
  }),
  output: z.object({
    path: z.string(),
    files: z.array(z.string()),
    outside: z
      .array(z.string())
      .describe('files outside the configuration directory, which are not in the archive'),
  }),
  errors: ['ARCHIVE_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  cli: {
    paths: ['to'],
    flags: { to: '--to <file>' },
    examples: ['ductile config backup', 'ductile config backup --to config.tar.gz'],
  },
  run(context, { to }) {
    const reading = readConfig(loadOptions(context));
    const nowMs = Date.now();
    const path = to ?? join(reading.found.directory, `backup-${formatStamp(nowMs)}.tar.gz`);
    const { files, outside } = writeBackup(reading, path, nowMs);
    return Promise.resolve({ path, files: [...files], outside: [...outside] });
  },
  plan(context) {
    const { files, outside } = listBackup(readConfig(loadOptions(context)));
    return Promise.resolve([
      ...files.map((path) => `${path} will be in the archive.`),
      ...outside.map((path) => `${path} will not be in the archive: ${OUTSIDE}.`),
    ]);
  },
});

const OUTSIDE = 'it is outside the configuration directory';

export const restoreConfig = defineOperation({
  name: 'config.restore',
  summary: 'Replace the configuration with the files of an archive, and lock them.',
  effect: 'destroy',
  ...onFiles,
  scope: 'config:rw',
  input: z.strictObject({ archive: z.string().describe('a file that `config backup` wrote') }),
  output: z.object({
    directory: z.string(),
    files: z.array(z.string()),
    aside: z
      .array(z.string())
      .describe('files that the archive does not have, renamed to <file>.bak'),
    previous: z.string().nullable().describe('archive of the previous configuration'),
    validation: findingsShape,
  }),
  errors: ['ARCHIVE_INVALID', 'CONFIG_INVALID', 'INPUT_INVALID'],
  cli: {
    positionals: ['archive'],
    paths: ['archive'],
    examples: [
      'ductile config restore config.tar.gz --dry-run',
      'ductile config restore config.tar.gz',
    ],
  },
  run(context, { archive }) {
    const { directory, before, restoring } = planRestore(context, archive);
    const nowMs = Date.now();
    const { previous, aside } = restoreBackup(before, restoring, directory, nowMs);
    const restored = readConfig({ given: directory });
    // The archive holds no plugins, so their locked hashes stay.
    const sealed = before === undefined ? undefined : findLockedPlugins(before.manifest);
    lockFiles(directory, restored.files, new Date(nowMs).toISOString(), sealed);
    return Promise.resolve({
      directory,
      files: restoring.entries.map(({ path }) => path),
      aside: [...aside],
      previous: previous ?? null,
      validation: showFindings(listConfigFindings(readConfig({ given: directory }))),
    });
  },
  plan(context, { archive }) {
    const { directory, restoring } = planRestore(context, archive);
    return Promise.resolve(
      restoring.entries.map(({ path }) => `${join(directory, path)} will be written.`),
    );
  },
});

function planRestore(
  context: Context,
  archive: string,
): { directory: string; before: ConfigReading | undefined; restoring: RestorePlan } {
  const options = loadOptions(context);
  const restoring = openBackup(archive);
  if (restoring.reading.config === undefined) throw configInvalid(restoring.reading.problems);
  try {
    const before = readConfig(options);
    return { directory: before.found.directory, before, restoring };
  } catch (thrown) {
    if (!(thrown instanceof DuctileError) || thrown.code !== 'CONFIG_NOT_FOUND') throw thrown;
    return { directory: homeOf(context), before: undefined, restoring };
  }
}

function homeOf({ configFiles }: Context): string {
  return homeDirectory(configFiles?.given);
}
