import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeSpawnerEvent,
  decodeSpawnerRequest,
  encodeSpawnerEvent,
  encodeSpawnerRequest,
  makeFrameSplitter,
  WIRE_VERSION,
  type SpawnerRequest,
  type SpawnerEvent,
} from '../../src/plugin/spawner/frames.ts';

const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array));
const text = fc
  .string({ unit: 'grapheme', maxLength: 20 })
  .map((value) => value.replaceAll('\0', ''));
const name = text.filter((value) => value !== '' && !value.includes('='));
const reason = fc.constantFrom(
  'timeout',
  'cancelled',
  'output',
  'fenced',
  'shutdown',
  'memory',
  'processes',
  'cpu',
  'file_size',
);

const positive = fc.integer({ min: 1, max: 0xffff_ffff });
const size = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
const limits = fc.record(
  { memoryBytes: size, fileBytes: size, processes: positive, cpuMs: positive },
  { requiredKeys: [] },
);

const spec = fc
  .record({
    entrypoint: text,
    cwd: text,
    env: fc.dictionary(name, text, { noNullPrototype: true }),
    timeoutMs: u32,
    killGraceMs: u32,
    drainMs: u32,
    stdoutBytesMax: u32,
    stderrBytesMax: u32,
    limits,
  })
  // Without any limit there is no such key.
  .map(({ limits: set, ...rest }) =>
    Object.keys(set).length === 0 ? rest : { ...rest, limits: set },
  );

const request: fc.Arbitrary<SpawnerRequest> = fc.oneof(
  fc.record({ type: fc.constant('start'), id: u32, hold: fc.boolean(), spec, request: bytes }),
  fc.record({ type: fc.constant('feed'), id: u32, timeoutMs: u32, request: bytes }),
  fc.record({ type: fc.constant('stop'), id: u32, reason }),
  fc.record({ type: fc.constant('renew'), ms: u32 }),
  fc.record({ type: fc.constant('bye') }),
);

const event: fc.Arbitrary<SpawnerEvent> = fc.oneof(
  fc.record({
    type: fc.constant('hello'),
    version: fc.integer({ min: 0, max: 0xffff }),
    kind: fc.constantFrom('native', 'node'),
  }),
  fc.record({ type: fc.constant('ready') }),
  fc.record({ type: fc.constant('started'), id: u32, pid: u32 }),
  fc.record({ type: fc.constant('spoiled'), id: u32 }),
  fc.record({
    type: fc.constant('end'),
    id: u32,
    kind: fc.constantFrom('exited', 'signalled', 'unstarted'),
    code: fc.integer({ min: -0x8000_0000, max: 0x7fff_ffff }),
    stopped: fc.option(reason, { nil: undefined }),
    stdoutOverflowed: fc.boolean(),
    stderrTruncated: fc.boolean(),
    hostFull: fc.boolean(),
    pid: u32,
    spawnUs: u32,
    runUs: fc.maxSafeNat(),
    cpuUs: fc.option(fc.maxSafeNat(), { nil: undefined }),
    memoryPeakBytes: fc.option(fc.maxSafeNat(), { nil: undefined }),
    stdout: bytes,
    stderr: bytes,
  }),
);

/** All frames, cut into chunks at the given places, as a stream may bring them. */
function readInChunks<T>(
  stream: Buffer,
  cuts: readonly number[],
  decode: (frame: Buffer) => T,
): T[] {
  const read: T[] = [];
  const reader = makeFrameSplitter((frame) => read.push(decode(frame)));
  const places = [...cuts.map((cut) => cut % (stream.length + 1)), 0, stream.length].sort(
    (a, b) => a - b,
  );
  for (const [index, place] of places.entries()) {
    reader.push(stream.subarray(places[index - 1] ?? 0, place));
  }
  return read;
}

/** The body of an end without output, except for these bytes. */
function endBody(changed: { kind?: number; stdout?: number; runUs?: number }): Buffer {
  const body = Buffer.alloc(31);
  body[4] = changed.kind ?? 0;
  body[26] = changed.runUs ?? 0;
  body[27] = changed.stdout ?? 0;
  return body;
}

const cuts = fc.array(fc.nat(), { maxLength: 40 });

describe('frames', () => {
  test('bring every request across, however the stream is cut', () => {
    const property = fc.property(fc.array(request, { maxLength: 6 }), cuts, (requests, places) => {
      const stream = Buffer.concat(requests.flatMap(encodeSpawnerRequest));
      expect(readInChunks(stream, places, decodeSpawnerRequest)).toEqual(requests);
    });
    fc.assert(property);
  });

  test('bring every event across, however the stream is cut', () => {
    const property = fc.property(fc.array(event, { maxLength: 6 }), cuts, (events, places) => {
      const stream = Buffer.concat(events.flatMap(encodeSpawnerEvent));
      expect(readInChunks(stream, places, decodeSpawnerEvent)).toEqual(events);
    });
    fc.assert(property);
  });

  test('come byte by byte', () => {
    const [started, ready] = [{ type: 'started', id: 7, pid: 42 }, { type: 'ready' }] as const;
    const stream = Buffer.concat([...encodeSpawnerEvent(started), ...encodeSpawnerEvent(ready)]);
    const everywhere = Array.from(stream, (_, index) => index);
    expect(readInChunks(stream, everywhere, decodeSpawnerEvent)).toEqual([started, ready]);
  });

  test('hold numbers within their field', () => {
    const [frame = Buffer.alloc(0)] = encodeSpawnerRequest({ type: 'renew', ms: 2 ** 40 });
    expect(decodeSpawnerRequest(frame.subarray(4))).toEqual({ type: 'renew', ms: 2 ** 32 - 1 });
  });

  test.each([
    ['of no length', Buffer.alloc(4)],
    ['longer than any can be', Buffer.from([0xff, 0xff, 0xff, 0x7f])],
  ])('%s are refused', (_name, chunk) => {
    const reader = makeFrameSplitter(() => {});
    expect(() => reader.push(chunk)).toThrow(expect.objectContaining({ code: 'SPAWNER_FAILED' }));
  });

  test.each([
    ['an unknown request', () => decodeSpawnerRequest(Buffer.from([99]))],
    ['an unknown event', () => decodeSpawnerEvent(Buffer.from([99]))],
    ['a request that is cut short', () => decodeSpawnerRequest(Buffer.from([2, 1, 0, 0, 0]))],
    ['an event that is cut short', () => decodeSpawnerEvent(Buffer.from([18, 1]))],
    [
      'an end of another kind',
      () => decodeSpawnerEvent(Buffer.from([20, ...endBody({ kind: 9 })])),
    ],
    [
      'an end with less output',
      () => decodeSpawnerEvent(Buffer.from([20, ...endBody({ stdout: 1 })])),
    ],
    ['an end after ages', () => decodeSpawnerEvent(Buffer.from([20, ...endBody({ runUs: 255 })]))],
    [
      'another program’s hello',
      () => decodeSpawnerEvent(Buffer.from([16, ...Buffer.from('HTTP'), 1, 0, 1])),
    ],
  ])('%s is refused', (_name, decode) => {
    expect(decode).toThrow(expect.objectContaining({ code: 'SPAWNER_FAILED' }));
  });

  test('have the version that the native spawner has', () => {
    const header = readFileSync(resolve(import.meta.dirname, '../../native/wire.h'), 'utf8');
    expect(/WIRE_VERSION = (\d+)/.exec(header)?.[1]).toBe(String(WIRE_VERSION));
  });
});
