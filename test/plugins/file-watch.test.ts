import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, open, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { runError, runOk, type OkResponse } from '../support/plugin-process.ts';

const old = new Date('2026-01-02T03:04:05.678Z');
let directory: string;
let file: string;

beforeEach(async () => {
  directory = await makeDirectory();
  file = join(directory, 'watched.txt');
});

describe('file-watch', () => {
  test('records a baseline first and emits nothing', async () => {
    await write('one');
    const { events, stateUpdates } = await poll();
    expect(events).toEqual([]);
    expect(stateUpdates).toMatchObject({ files: { [file]: { size: 3, sha256: sha256('one') } } });
  });

  test('emits the existing files at first if configured', async () => {
    await write('one');
    const { events } = await poll({}, { emit_initial: true });
    expect(events).toEqual([
      {
        type: 'file-watch.created',
        payload: { path: file, size: 3, sha256: sha256('one'), mtime: old.toISOString() },
        dedupeKey: expect.stringMatching(/^file-watch\.created:[0-9a-f]{32}$/),
      },
    ]);
  });

  test('follows a file from creation over change to deletion', async () => {
    let state = (await poll()).stateUpdates ?? {};
    const step = async (): Promise<unknown[]> => {
      const { events, stateUpdates } = await poll(state);
      state = stateUpdates ?? state;
      return events.map(({ type, payload }) => [type, (payload as JsonObject)['sha256']]);
    };
    await write('one');
    expect(await step()).toEqual([['file-watch.created', sha256('one')]]);
    await write('two');
    expect(await step()).toEqual([['file-watch.changed', sha256('two')]]);
    expect(await step()).toEqual([]);
    await rm(file);
    expect(await step()).toEqual([['file-watch.deleted', sha256('two')]]);
    expect(await step()).toEqual([]);
  });

  test('notices the same content as no change, and the same size as one', async () => {
    await write('one');
    const { stateUpdates: state = {} } = await poll();
    await utimes(file, old, new Date());
    expect((await poll(state)).events).toEqual([]);
    await write('eno');
    expect((await poll(state)).events).toMatchObject([{ type: 'file-watch.changed' }]);
  });

  test('makes the same snapshot and the same keys of the same files', async () => {
    await write('one');
    const config = { emit_initial: true };
    const first = await poll({}, config);
    expect(await poll({}, config)).toEqual(first);
    const { events, stateUpdates } = await poll(first.stateUpdates, config);
    expect({ events, stateUpdates }).toEqual({ events: [], stateUpdates: undefined });
  });

  test('reads a file again that was just written, because its stamp proves nothing yet', async () => {
    await writeFile(file, 'one');
    const { stateUpdates: state } = await poll();
    expect(state).toMatchObject({ files: { [file]: { stamp: '' } } });
  });

  test('reads a large file in pieces', async () => {
    const handle = await open(file, 'w');
    await handle.truncate(64 * 1024 * 1024);
    await handle.close();
    const { stateUpdates } = await poll();
    expect(stateUpdates).toMatchObject({
      files: {
        [file]: { size: 64 * 1024 * 1024, sha256: expect.stringMatching(/^3b6a07d0d404fab4/) },
      },
    });
  });

  test('takes a replaced file for a changed one', async () => {
    await write('one');
    const { stateUpdates: state = {} } = await poll();
    await writeFile(`${file}.new`, 'two');
    await rename(`${file}.new`, file);
    expect((await poll(state)).events).toMatchObject([{ type: 'file-watch.changed' }]);
  });

  test('does not wait for a pipe, does not call a folder deleted, and keeps what it knew', async () => {
    await write('one');
    const { stateUpdates: state = {} } = await poll();
    await rm(file);
    execFileSync('mkfifo', [file]);
    const piped = await poll(state);
    expect(piped.events).toEqual([]);
    expect(piped.stateUpdates).toBeUndefined();
    expect(piped.logs).toMatchObject([{ level: 'warn', message: expect.stringContaining(file) }]);
    await rm(file);
    await mkdir(file);
    expect((await poll(state)).events).toEqual([]);
  });

  test('starts again from a state that it did not write', async () => {
    await write('one');
    for (const files of [[], 'x', { [file]: 3 }, { [file]: { sha256: 1 } }]) {
      const { events, stateUpdates } = await poll({ files });
      expect(events).toEqual([]);
      expect(stateUpdates).toMatchObject({ files: { [file]: { sha256: sha256('one') } } });
    }
  });

  test('forgets a path that is no longer watched', async () => {
    await write('one');
    const { stateUpdates: state = {} } = await poll();
    const other = join(directory, 'other');
    const { stateUpdates, events } = await poll(state, { paths: [other] });
    expect(stateUpdates).toEqual({ files: { [other]: null } });
    expect(events).toEqual([]);
  });

  test.each([[['relative/path']], [[]], [['']], ['/one'], [[3]], [['/a\0b']]])(
    'refuses config.paths %j',
    async (paths) => {
      const { code, error } = await runError('file-watch', { command: 'poll', config: { paths } });
      expect(code).toBe(78);
      expect(error).toContain('config.paths');
    },
  );

  test('stops at its deadline', async () => {
    await write('one');
    const handle = await open(file, 'w');
    await handle.truncate(8 * 1024 ** 3);
    await handle.close();
    const request = { command: 'poll', config: { paths: [file] } };
    const past = { ...request, deadline_at: new Date().toISOString() };
    const { error, retry } = await runError('file-watch', past);
    expect(error).toContain('deadline');
    expect(retry).toBe(true);
  });
});

async function write(text: string): Promise<void> {
  await writeFile(file, text);
  await utimes(file, old, old);
}

function poll(state: JsonObject = {}, config: JsonObject = {}): Promise<OkResponse> {
  return runOk('file-watch', { command: 'poll', config: { paths: [file], ...config }, state });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
