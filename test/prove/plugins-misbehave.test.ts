/**
 * Plugins that misbehave, in three languages, started for their request and ahead of it. Each
 * attempt has the right outcome in time, leaves no processes or descriptors behind, and a neighbour
 * is served. Six trials are every kind in every language and mode; each trial runs one of each in
 * turn. Elsewhere: 36 and 42 for every spawner in test/plugin, 40 in secrets.test.ts, 41 in
 * test/plugin/trust.unit.test.ts, 45 in test/plugins/http-fetch-guard.alone.test.ts, and the second
 * attempt after 44 in `*.crash.test.ts`.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { limits } from '../../src/base/limits.ts';
import { makeHost } from '../../src/plugin/host.ts';
import type { Host, ProcessEnd, ProcessSpec } from '../../src/plugin/process.ts';
import { decodeResponse } from '../../src/plugin/protocol.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeSpec, nodeScript, waitForDeath } from '../support/hosts.ts';
import { findDescendants } from '../support/processes.ts';
import { kinds, type Kind } from './plugins/kinds.ts';
import { languages, programOf, type Language } from './plugins/languages.ts';
import { campaign } from './support/campaign.ts';

const AT_ONCE = 6;
const modes = ['cold', 'prewarmed'] as const;
type Mode = (typeof modes)[number];
const SLOW_MS = 400;
const GRACE_MS = 300;
const large = Buffer.alloc(10 * 1024 * 1024, ' ');
const small = Buffer.from('{}\n');

campaign('plugins-misbehave', { trials: 1, timeoutMs: 300_000 }, async ({ index }) => {
  const lockPath = join(await makeDirectory(), 'lock');
  const { nativeSpawner: nativePath } = findInstallPaths();
  const host = makeHost({ kind: 'auto', nativePath, nodeScript, lockPath, log: () => {} });
  await host.start();
  process.env['CANARY'] = 'of the engine';
  try {
    const fixture: HostFixture = { host, directory: await makeDirectory(), lateMs: [] };
    const before = await countDescriptors();
    const turns = kinds.map((kind, at) => ({ kind, ...turnOf(at + index) }));
    const waiting = turns.values();
    const work = async (): Promise<void> => {
      for (const { kind, language, mode } of waiting) await tryOne(fixture, kind, language, mode);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    expect(await countDescriptors()).toBe(before);
    const numbers = new Set(kinds.map(({ kind }) => kind));
    const { lateMs } = fixture;
    return { runs: turns.length, neighbours: turns.length, kinds: [numbers.size], lateMs };
  } finally {
    delete process.env['CANARY'];
    await host.stop();
  }
});

interface HostFixture {
  readonly host: Host;
  readonly directory: string;
  /** The delays from the end or timeout of a process to its report. */
  readonly lateMs: number[];
}

function turnOf(turn: number): { readonly language: Language; readonly mode: Mode } {
  const language = languages[turn % languages.length] ?? 'sh';
  const mode = modes[Math.floor(turn / languages.length) % modes.length] ?? 'cold';
  return { language, mode };
}

async function tryOne(
  fixture: HostFixture,
  kind: Kind,
  language: Language,
  mode: Mode,
): Promise<void> {
  const { host, lateMs } = fixture;
  const name = `${kind.kind} ${kind.what}, ${language}, ${mode}`;
  const spec = install(fixture, kind, language, name);
  const began = performance.now();
  const [end, neighbour] = await Promise.all([
    perform(host, spec, kind.isLarge === true ? large : small, mode),
    host.run(makeSpec('echoes-stdin'), Buffer.from('neighbour')),
  ]);
  const tookMs = performance.now() - began;
  expect([name, neighbour.stdout.toString()]).toEqual([name, 'neighbour']);
  const reply = decodeResponse(end);
  const text = reply.kind === 'ok' ? reply.result : reply.message;
  expect([name, reply.kind, text]).toEqual([name, kind.reply, text]);
  if (kind.says !== undefined)
    expect([name, text]).toEqual([name, expect.stringMatching(kind.says)]);
  if (reply.kind !== 'ok') expect([name, reply.retry]).toEqual([name, kind.retry ?? true]);
  if (kind.isSlow === true) lateMs.push(Math.max(0, tookMs - SLOW_MS));
  if (kind.hasFamily !== true) return;
  const family = text.match(/\d+/g) ?? [];
  expect([name, family.length > 0]).toEqual([name, true]);
  for (const pid of family) await waitForDeath(Number(pid));
}

function install(fixture: HostFixture, kind: Kind, language: Language, name: string): ProcessSpec {
  const cwd = join(fixture.directory, name.replaceAll(/\W/g, '-'));
  mkdirSync(cwd);
  const entrypoint = join(cwd, 'run');
  writeFileSync(entrypoint, programOf(language, kind.does), { mode: 0o755 });
  return makeSpec('', {
    entrypoint,
    cwd,
    ...(kind.isSlow === true ? { timeoutMs: SLOW_MS } : {}),
    killGraceMs: GRACE_MS,
    stdoutBytesMax: limits.stdoutBytesMax,
  });
}

function perform(host: Host, spec: ProcessSpec, request: Buffer, mode: Mode): Promise<ProcessEnd> {
  return mode === 'cold' ? host.run(spec, request) : host.hold(spec).feed(request);
}

/** The memory of the spawner, if the system reports it. */
async function countDescriptors(): Promise<number> {
  const below = await findDescendants(process.pid);
  const spawner = below.find(
    ({ parent, command }) => parent === process.pid && command.includes('spawner'),
  );
  return spawner === undefined ? 0 : readdirSync(`/proc/${spawner.pid}/fd`).length;
}
