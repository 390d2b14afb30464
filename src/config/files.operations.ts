import { join } from 'node:path';
import { quoteShell } from '../base/text.ts';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import { listBackup, openBackup, restoreBackup, stampOf, writeBackup } from './backup.ts';
import type { Restoring } from './backup.ts';
import { homeDirectory } from './find.ts';
import { sealedIn } from './integrity.ts';
import { readConfig } from './load.ts';
import type { Reading } from './load.ts';
import { lockFiles } from './lock.ts';
import { configInvalid } from './problem.ts';
import { writeStarter } from './starter.ts';
import type { Context } from '../operation/context.ts';
import { FILES_HERE } from './operations.ts';
import { defineOperation } from '../operation/define.ts';
import { examine, loadOptions } from '../insight/doctor.operations.ts';
import { findingsShape, showFindings } from '../insight/findings.service.ts';

const ADDRESS = /^([^\s:]+|\[[\da-f:]+\]):\d{1,5}$/i;
const ADDRESS_RULE = 'must be an address such as 127.0.0.1:8080';

export const initConfig = defineOperation({
  name: 'config.init',
  summary: 'Write a configuration that works at once.',
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({
    directory: z.string().optional().describe('where; ~/.config/ductile unless given'),
    api: z
      .union([z.boolean(), z.string().regex(ADDRESS, ADDRESS_RULE)], { error: ADDRESS_RULE })
      .default(true)
      .describe('the HTTP API: on 127.0.0.1:8080, or where it is to listen'),
    force: z.boolean().optional().describe('replace a config.yaml that is there'),
  }),
  output: z.object({
    directory: z.string(),
    files: z.array(z.string()),
    url: z.string().nullable().describe('of the API, once the service runs'),
    token: z.string().nullable().describe('for the API; shown now, and kept in .env alone'),
    next: z.array(z.string()).describe('commands to go on with'),
  }),
  errors: ['CONFIG_EXISTS', 'CONFIG_INVALID', 'INPUT_INVALID'],
  http: { absent: FILES_HERE },
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
    const shippedPlugins = context.place?.shippedPlugins ?? '';
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
    const next = nextOf(
      directory === homeDirectory(undefined) ? '' : ` --config ${quoteShell(directory)}`,
    );
    return Promise.resolve({ directory, files: [...files], url, token, next });
  },
  plan(context, { directory = homeOf(context), api }) {
    const listen = addressOf(api);
    const token = `A token would be made, and kept in ${join(directory, '.env')}.`;
    return Promise.resolve([
      `${join(directory, 'config.yaml')} and AGENTS.md beside it would be written, and locked.`,
      ...(listen === undefined ? [] : [token]),
    ]);
  },
});

const USUAL_ADDRESS = '127.0.0.1:8080';

function addressOf(api: boolean | string): string | undefined {
  if (typeof api === 'string') return api;
  return api ? USUAL_ADDRESS : undefined;
}

/** Without the service the second does the work itself. */
function nextOf(where: string): string[] {
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
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({
    to: z.string().optional().describe('the archive; backup-<time>.tar.gz beside it unless given'),
  }),
  output: z.object({
    path: z.string(),
    files: z.array(z.string()),
    outside: z.array(z.string()).describe('files that lie elsewhere and are not in the archive'),
  }),
  errors: ['ARCHIVE_INVALID', 'CONFIG_NOT_FOUND', 'INPUT_INVALID'],
  http: { absent: FILES_HERE },
  cli: {
    paths: ['to'],
    flags: { to: '--to <file>' },
    examples: ['ductile config backup', 'ductile config backup --to config.tar.gz'],
  },
  run(context, { to }) {
    const reading = readConfig(loadOptions(context));
    const nowMs = Date.now();
    const path = to ?? join(reading.found.directory, `backup-${stampOf(nowMs)}.tar.gz`);
    const { files, outside } = writeBackup(reading, path, nowMs);
    return Promise.resolve({ path, files: [...files], outside: [...outside] });
  },
  plan(context) {
    const { files, outside } = listBackup(readConfig(loadOptions(context)));
    return Promise.resolve([
      ...files.map((path) => `${path} would be in it.`),
      ...outside.map((path) => `${path} would not: it lies elsewhere.`),
    ]);
  },
});

export const restoreConfig = defineOperation({
  name: 'config.restore',
  summary: 'Put the files of an archive in the place of the configuration, and lock them.',
  effect: 'destroy',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({ archive: z.string().describe('a file that `config backup` wrote') }),
  output: z.object({
    directory: z.string(),
    files: z.array(z.string()),
    aside: z.array(z.string()).describe('files that were set aside, as <file>.bak'),
    previous: z.string().nullable().describe('the archive of what was there'),
    validation: findingsShape,
  }),
  errors: ['ARCHIVE_INVALID', 'CONFIG_INVALID', 'INPUT_INVALID'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['archive'],
    paths: ['archive'],
    examples: [
      'ductile config restore config.tar.gz --dry-run',
      'ductile config restore config.tar.gz',
    ],
  },
  run(context, { archive }) {
    const { directory, before, restoring } = plannedRestore(context, archive);
    const nowMs = Date.now();
    const { previous, aside } = restoreBackup(before, restoring, directory, nowMs);
    const restored = readConfig({ given: directory });
    // Plugins are not in the archive, so nothing is said of them that was not said before.
    const sealed = before === undefined ? undefined : sealedIn(before.manifest);
    lockFiles(directory, restored.files, new Date(nowMs).toISOString(), sealed);
    return Promise.resolve({
      directory,
      files: restoring.entries.map(({ path }) => path),
      aside: [...aside],
      previous: previous ?? null,
      validation: showFindings(examine(readConfig({ given: directory }))),
    });
  },
  plan(context, { archive }) {
    const { directory, restoring } = plannedRestore(context, archive);
    return Promise.resolve(
      restoring.entries.map(({ path }) => `${join(directory, path)} would be written.`),
    );
  },
});

function plannedRestore(
  context: Context,
  archive: string,
): { directory: string; before: Reading | undefined; restoring: Restoring } {
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

/** Where a configuration goes that is not there yet. */
function homeOf({ place }: Context): string {
  return homeDirectory(place?.given);
}
