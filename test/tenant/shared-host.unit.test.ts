import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makeSharedHost } from '../../src/app/tenant-engine.ts';
import type { Host, ProcessSpec, RunOptions } from '../../src/plugin/process.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const spec = {} as ProcessSpec;
const request = Buffer.alloc(0);

function makeShared() {
  const signals: (AbortSignal | undefined)[] = [];
  const calls: string[] = [];
  const never = (options?: RunOptions) => {
    signals.push(options?.signal);
    return new Promise<never>(() => undefined);
  };
  const host: Host = {
    kind: 'native',
    start: () => Promise.resolve(void calls.push('start')),
    run: (_spec, _request, options) => never(options),
    hold: () => ({
      feed: (_request, options) => never(options),
      discard: () => undefined,
      spoiled: Promise.resolve(),
    }),
    renew: () => void calls.push('renew'),
    stop: () => Promise.resolve(void calls.push('stop')),
  };
  return { host, signals, calls };
}

test("a tenant's host does nothing to the shared host that others would notice", async () => {
  const { host, calls } = makeShared();
  const facade = makeSharedHost(host);
  await facade.start();
  facade.renew(1000);
  await facade.stop();
  expect(calls).toEqual([]);
});

test("a tenant's host ends only its own attempts when it is not renewed in time", () => {
  const { host, signals } = makeShared();
  const [silent, other] = [makeSharedHost(host), makeSharedHost(host)];
  silent.renew(1000);
  other.renew(1000);
  void silent.run(spec, request);
  void silent.hold(spec).feed(request);
  void other.run(spec, request);
  vi.advanceTimersByTime(900);
  other.renew(1000);
  expect(signals.map((signal) => signal?.aborted)).toEqual([false, false, false]);
  vi.advanceTimersByTime(200);
  expect(signals.map((signal) => signal?.aborted)).toEqual([true, true, false]);
  expect(signals[0]?.reason).toBe('shutdown');
  // When it is renewed again, what it starts then lives.
  silent.renew(1000);
  void silent.run(spec, request);
  expect(signals[3]?.aborted).toBe(false);
});

test("a tenant's host stops an attempt when it is asked to", () => {
  const { host, signals } = makeShared();
  const abort = new AbortController();
  void makeSharedHost(host).run(spec, request, { signal: abort.signal });
  abort.abort('cancelled');
  expect([signals[0]?.aborted, signals[0]?.reason]).toEqual([true, 'cancelled']);
});
