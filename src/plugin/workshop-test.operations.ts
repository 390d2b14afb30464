import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { MANIFEST_FILE } from './manifest.ts';
import type { Finding } from '../../extras/workshop/finding.ts';
import { tryPlugin } from '../../extras/workshop/trial.ts';
import { FILES_HERE } from '../config/operations.ts';
import { defineOperation } from '../operation/define.ts';
import { workshopOf } from './workshop.ts';

const object = z.record(z.string(), z.unknown());

const findingShape = z.object({
  check: z.string(),
  command: z.string().nullable(),
  verdict: z.enum(['passed', 'hint', 'warning', 'failed', 'skipped']),
  seen: z.string().describe('what was seen'),
  means: z.string().nullable().describe('what the runtime does with it'),
  mend: z.string().nullable().describe('how to put it right'),
});

export const testPlugin = defineOperation({
  name: 'plugin.test',
  summary: 'Run a plugin as the runtime would, and say how it keeps to the protocol.',
  // It runs what is in that directory.
  effect: 'write',
  isForRoot: true,
  scope: 'config:rw',
  needs: 'files',
  input: z.strictObject({
    directory: z.string().describe('where its manifest.yaml is'),
    command: z.string().optional().describe('only this command; it is run though it may write'),
    payload: object.optional().describe('for that command; else that of its example, or {}'),
    settings: object.optional().describe('its configuration; else that of its examples'),
    all: z.boolean().optional().describe('run commands that write, too'),
  }),
  output: z.object({
    directory: z.string(),
    plugin: z.string().nullable(),
    passed: z.boolean().describe('whether nothing failed'),
    findings: z.array(findingShape),
  }),
  errors: ['INPUT_INVALID', 'PLUGIN_NOT_FOUND', 'SPAWNER_FAILED'],
  http: { absent: FILES_HERE },
  cli: {
    positionals: ['directory'],
    paths: ['directory'],
    examples: [
      'ductile plugin test ./plugins/greet',
      'ductile plugin test ./plugins/greet --command handle --payload \'{"name": "Ann"}\'',
      'ductile plugin test ./plugins/greet --all --json',
    ],
    exitCode: ({ passed }) => (passed === true ? 0 : 1),
  },
  async run(context, { directory, command, payload, settings, all = false }) {
    checkAsked(directory, command, payload);
    const { makeHost, env } = workshopOf(context);
    const { plugin, findings } = await tryPlugin({
      directory,
      command,
      payload: payload as JsonObject | undefined,
      settings: settings as JsonObject | undefined,
      all,
      host: makeHost(),
      env,
    });
    const passed = findings.every(({ verdict }) => verdict !== 'failed');
    return { directory, plugin: plugin ?? null, passed, findings: findings.map(showFinding) };
  },
  plan(_context, { directory, command, payload, all = false }) {
    checkAsked(directory, command, payload);
    const which =
      command ?? (all ? 'each of its commands' : 'each of its commands that only reads');
    return Promise.resolve([`${directory} would be run, with ${which}, several times.`]);
  },
});

function checkAsked(directory: string, command: string | undefined, payload: unknown): void {
  if (!existsSync(join(directory, MANIFEST_FILE))) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no ${MANIFEST_FILE} in ${directory}`, {
      place: directory,
      hint: 'Name the directory of a plugin, or make one with `ductile plugin new`.',
    });
  }
  if (payload === undefined || command !== undefined) return;
  throw new DuctileError('INPUT_INVALID', 'payload is for one command, and none is named', {
    place: 'payload',
    hint: 'Name it with --command.',
  });
}

function showFinding(finding: Finding): z.output<typeof findingShape> {
  const { check, verdict, seen, command = null, means = null, mend = null } = finding;
  return { check, command, verdict, seen, means, mend };
}
