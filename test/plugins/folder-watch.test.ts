import { execFileSync } from 'node:child_process';
import { mkdir, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { isObject, type JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { runError, runOk, type OkResponse } from '../support/plugin-process.ts';

const old = new Date('2026-01-02T03:04:05.678Z');
let folder: string;

beforeEach(async () => {
  folder = await makeDirectory();
});

describe('folder-watch', () => {
  test('records a baseline first, then says what was added, modified and removed', async () => {
    await write('kept.txt', 'a');
    await write('gone.txt', 'a');
    const baseline = await poll();
    expect(baseline.events).toEqual([]);
    await write('kept.txt', 'longer');
    await rm(join(folder, 'gone.txt'));
    await write('new.txt', 'abc');
    const { events, stateUpdates } = await poll(baseline.stateUpdates);
    expect(events.map(({ type }) => type)).toEqual([
      'folder-watch.file_removed',
      'folder-watch.file_modified',
      'folder-watch.file_added',
    ]);
    expect(events[2]).toEqual({
      type: 'folder-watch.file_added',
      payload: {
        path: join(folder, 'new.txt'),
        name: 'new.txt',
        size: 3,
        mtime: old.toISOString(),
      },
      dedupeKey: expect.stringMatching(/^folder-watch\.file_added:[0-9a-f]{32}$/),
    });
    const again = await poll(stateUpdates);
    expect({ events: again.events, state: again.stateUpdates }).toEqual({
      events: [],
      state: undefined,
    });
  });

  test('reports a bounded number and the rest next time, each exactly once', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `f${index}`);
    for (const name of names) await write(name, name);
    const config = { emit_initial: true, max_events: 3 };
    let state: JsonObject = {};
    const seen: unknown[] = [];
    const sizes: number[] = [];
    for (let round = 0; round < 4; round += 1) {
      const { events, stateUpdates } = await poll(state, config);
      seen.push(...events.map(({ payload }) => (payload as JsonObject)['name']));
      sizes.push(events.length);
      state = stateUpdates ?? state;
    }
    expect(sizes).toEqual([3, 3, 1, 0]);
    expect(seen).toEqual(names);
  });

  test('leaves a file alone until it has been quiet for a while', async () => {
    const { stateUpdates: state } = await poll();
    await writeFile(join(folder, 'growing'), 'x');
    const young = { min_age_ms: 3_600_000 };
    expect((await poll(state, young)).events).toEqual([]);
    await utimes(join(folder, 'growing'), old, old);
    expect((await poll(state, young)).events).toMatchObject([{ type: 'folder-watch.file_added' }]);
  });

  test('keeps to the pattern, to files, and out of links and hidden files', async () => {
    const outside = await makeDirectory();
    await writeFile(join(outside, 'secret.txt'), 'x');
    await write('a.txt', 'x');
    await write('a.log', 'x');
    await write('.hidden.txt', 'x');
    await mkdir(join(folder, 'deep/er'), { recursive: true });
    await write('deep/er/b.txt', 'x');
    await symlink(outside, join(folder, 'link'));
    await symlink(join(outside, 'secret.txt'), join(folder, 'link.txt'));
    execFileSync('mkfifo', [join(folder, 'pipe.txt')]);
    expect(await namesOf({ pattern: '*.txt' })).toEqual(['a.txt']);
    expect(await namesOf({ pattern: '*.txt', recursive: true })).toEqual([
      'a.txt',
      'deep/er/b.txt',
    ]);
    expect(await namesOf({ pattern: 'deep/*', recursive: true })).toEqual(['deep/er/b.txt']);
    expect(await namesOf({ pattern: '.*' })).toEqual(['.hidden.txt']);
  });

  test('makes the same snapshot of the same folder', async () => {
    for (const name of ['b', 'a', 'c']) await write(name, name);
    const first = await poll();
    expect(await poll()).toEqual(first);
    const { files } = first.stateUpdates ?? {};
    expect(isObject(files) && Object.keys(files)).toEqual(['a', 'b', 'c']);
  });

  test('takes another scope for another baseline', async () => {
    await write('a.txt', 'x');
    await write('a.log', 'x');
    const { stateUpdates: state } = await poll({}, { pattern: '*.txt' });
    const { events, stateUpdates } = await poll(state, { pattern: '*.log' });
    expect(events).toEqual([]);
    expect(stateUpdates).toMatchObject({
      pattern: '*.log',
      files: { 'a.log': expect.any(String) },
    });
  });

  test('says what to do when there are too many files', async () => {
    for (const name of ['a', 'b', 'c']) await write(name, 'x');
    const { error, retry } = await runError('folder-watch', {
      command: 'poll',
      config: { path: folder, max_files: 2 },
    });
    expect(error).toMatch(
      /config\.path .* is too large: more than config\.max_files \(2\).*config\.pattern/,
    );
    expect(retry).toBe(false);
  });

  test('says so when their names do not fit into one snapshot', async () => {
    const deep = join(folder, 'd'.repeat(250), 'e'.repeat(250));
    await mkdir(deep, { recursive: true });
    const names = Array.from({ length: 2100 }, (_, index) => join(deep, `${index}`));
    await Promise.all(names.map((name) => writeFile(name, '')));
    const { error, retry } = await runError('folder-watch', {
      command: 'poll',
      config: { path: folder, recursive: true, min_age_ms: 0 },
    });
    expect(error).toContain('2100 files do not fit into one snapshot');
    expect(retry).toBe(false);
  });

  test('fails, and removes nothing, when the folder is away', async () => {
    await write('a', 'x');
    const { stateUpdates: state = {} } = await poll();
    await rename(folder, `${folder}.away`);
    const request = { command: 'poll', config: { path: folder }, state };
    expect(await runError('folder-watch', request)).toMatchObject({
      error: expect.stringContaining('cannot read'),
      retry: true,
    });
    await rename(`${folder}.away`, folder);
    expect((await poll(state)).events).toEqual([]);
  });

  test("skips a name that isn't text and says so", async () => {
    await writeFile(Buffer.concat([Buffer.from(`${folder}/bad-`), Buffer.from([0xff, 0xfe])]), 'x');
    await write('good', 'x');
    const { stateUpdates, logs } = await poll();
    expect(stateUpdates).toMatchObject({ files: { good: expect.any(String) } });
    expect(logs).toMatchObject([{ level: 'warn', message: expect.stringContaining('1 files') }]);
  });

  test('bears dates outside of the calendar', async () => {
    await write('future', 'x');
    execFileSync('touch', ['-d', '@99999999999', join(folder, 'future')]);
    const { events } = await poll({}, { emit_initial: true });
    expect(events).toMatchObject([{ payload: { name: 'future' } }]);
  });

  test('starts again from a state that it did not write', async () => {
    await write('a', 'x');
    const scope = { path: folder, pattern: '*', recursive: false };
    for (const files of [3, [], { a: 'x' }, { a: { b: 1 } }]) {
      const { events, stateUpdates } = await poll({ ...scope, files });
      expect(events).toEqual([]);
      expect(stateUpdates).toMatchObject({ files: { a: expect.stringMatching(/^1:\d+$/) } });
    }
  });

  test.each(['relative', '', '../up', 'a\0b'])('refuses config.path %j', async (path) => {
    const { code, error } = await runError('folder-watch', { command: 'poll', config: { path } });
    expect(code).toBe(78);
    expect(error).toContain('config.path');
  });
});

async function write(name: string, text: string): Promise<void> {
  await writeFile(join(folder, name), text);
  await utimes(join(folder, name), old, old);
}

function poll(state: JsonObject = {}, config: JsonObject = {}): Promise<OkResponse> {
  return runOk('folder-watch', { command: 'poll', config: { path: folder, ...config }, state });
}

async function namesOf(config: JsonObject): Promise<string[]> {
  const { stateUpdates } = await poll({}, config);
  const files = stateUpdates?.['files'];
  return isObject(files) ? Object.keys(files) : [];
}
