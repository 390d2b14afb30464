import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { findServiceManager } from '../../src/app/systemd.ts';
import { collectLog, eventually } from '../support/instance.ts';
import { hasNotifyProgram, openNotifySocket } from '../support/notify-socket.ts';

const socket = { NOTIFY_SOCKET: '/run/systemd/notify' };

function makeManager(
  env: Readonly<Record<string, string>>,
  failure: (count: number) => Error | undefined = () => undefined,
) {
  const messages: string[] = [];
  const { log, records } = collectLog();
  const send = (words: readonly string[]): Promise<void> => {
    const error = failure(messages.push(words.join(' ')));
    return error === undefined ? Promise.resolve() : Promise.reject(error);
  };
  return { manager: findServiceManager({ env, log, send }), messages, records };
}

describe('the service manager', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test('hears what happens in order', async () => {
    const { manager, messages } = makeManager(socket);
    manager.ready();
    manager.reloading();
    manager.ready();
    await manager.stopping();
    expect(messages).toEqual([
      'READY=1',
      expect.stringMatching(/^RELOADING=1 MONOTONIC_USEC=\d+$/),
      'READY=1',
      'STOPPING=1',
    ]);
  });

  test('gets no message without a notify socket', async () => {
    const { manager, messages } = makeManager({ WATCHDOG_USEC: '1000000' });
    manager.ready();
    manager.watch(() => true);
    await vi.advanceTimersByTimeAsync(5000);
    await manager.stopping();
    expect(messages).toEqual([]);
  });

  test('hears twice in its interval that all is sound, as long as it is', async () => {
    const watched = { ...socket, WATCHDOG_USEC: '1000000', WATCHDOG_PID: String(process.pid) };
    const { manager, messages } = makeManager(watched);
    let isSound = true;
    manager.watch(() => isSound);
    await vi.advanceTimersByTimeAsync(1000);
    expect(messages).toEqual(['WATCHDOG=1', 'WATCHDOG=1']);
    isSound = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(messages).toHaveLength(2);
    await manager.stopping();
    isSound = true;
    await vi.advanceTimersByTimeAsync(1000);
    expect(messages).toEqual(['WATCHDOG=1', 'WATCHDOG=1', 'STOPPING=1']);
  });

  test.each([
    ['nobody watches', {}],
    ['somebody else is watched', { WATCHDOG_USEC: '1000000', WATCHDOG_PID: '1' }],
  ])('gets no status when %s', async (_when, env) => {
    const { manager, messages } = makeManager({ ...socket, ...env });
    manager.watch(() => true);
    await vi.advanceTimersByTimeAsync(5000);
    expect(messages).toEqual([]);
  });

  test('that has no program to tell it is given up, with one word about it', async () => {
    const { manager, messages, records } = makeManager(
      { ...socket, WATCHDOG_USEC: '1000000' },
      () => Object.assign(new Error('spawn systemd-notify ENOENT'), { code: 'ENOENT' }),
    );
    manager.watch(() => true);
    manager.ready();
    await vi.advanceTimersByTimeAsync(5000);
    await manager.stopping();
    expect(messages).toEqual(['READY=1']);
    expect(records).toHaveLength(1);
  });
});

test('a service manager that missed a notification gets it again, and later, too', async () => {
  const { manager, messages, records } = makeManager(socket, (count) =>
    count === 1 || (count > 2 && count < 6) ? new Error('no more processes') : undefined,
  );
  manager.ready();
  manager.reloading();
  manager.ready();
  await manager.stopping();
  const words = messages.map((line) => line.split('=')[0]);
  expect(words.join(' ')).toBe('READY READY RELOADING RELOADING RELOADING READY STOPPING');
  expect(records).toHaveLength(1);
});

test.runIf(hasNotifyProgram)('a real message arrives at the socket', async () => {
  const { path, messages } = await openNotifySocket();
  vi.stubEnv('NOTIFY_SOCKET', path);
  onTestFinished(() => void vi.unstubAllEnvs());
  const manager = findServiceManager({ env: { NOTIFY_SOCKET: path }, log: collectLog().log });
  manager.ready();
  await manager.stopping();
  await eventually('both are heard', () => messages.some((line) => line.includes('STOPPING=1')));
  expect(messages[0]).toContain('READY=1');
});
