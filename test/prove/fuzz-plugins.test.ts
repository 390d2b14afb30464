/** Output of plugins and of the spawner: responses, frames, manifests. */
import assert from 'node:assert/strict';
import { DuctileError } from '../../src/base/errors.ts';
import { describeUnsafeJson } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { parseDocument } from '../../src/config/document.ts';
import { parseManifest } from '../../src/plugin/manifest.ts';
import { decodeResponse, type Reply } from '../../src/plugin/protocol.ts';
import {
  decodeSpawnerEvent,
  decodeSpawnerRequest,
  encodeSpawnerEvent,
  encodeSpawnerRequest,
  makeFrameSplitter,
} from '../../src/plugin/spawner/frames.ts';
import type { Target } from './support/fuzz.ts';
import { fuzzing } from './support/fuzzing.ts';

const response: Target = {
  name: 'response',
  examples: [
    '{"status":"ok","result":"done"}',
    JSON.stringify({
      status: 'ok',
      result: 'r',
      events: [{ type: 'a.b', payload: { x: [1, null, 'y'] }, dedupe_key: 'k' }],
      state_updates: { seen: 3 },
      logs: [{ level: 'warn', message: 'm' }],
    }),
    '{"status":"error","error":"no","retry":false,"logs":["bare"]}',
    '\ufeff{}',
    '{"status":"ok","result":"\\u00e9\\ud83d\\ude00"}',
  ],
  words: [
    '"status"',
    '"ok"',
    '"error"',
    '"result"',
    '"events"',
    '"logs"',
    '"retry"',
    'null',
    '"__proto__":1',
    '"state_updates"',
    '"payload"',
    '"type"',
    '"dedupe_key"',
    '\\u0000',
    '\\ud800',
    '{"type":"x"},',
    '[[[[',
    '{"a":',
    '{}',
    '[]',
    'true',
    '1e400',
    'NaN',
  ],
  check(input) {
    const ends = [0, 1, 78] as const;
    const code = ends[input.length % ends.length] ?? 0;
    const reply = decodeResponse({
      exit: { kind: 'exited', code },
      stopped: undefined,
      pid: 1,
      stdout: Buffer.from(input),
      stdoutOverflowed: false,
      stderr: Buffer.from(input.slice(-40), 'latin1'),
      stderrTruncated: false,
      spawnMs: 1,
      runMs: 1,
      cpuMs: undefined,
      memoryPeakBytes: undefined,
    });
    assertStorable(reply.raw);
    if (reply.kind !== 'ok') return assertFailure(reply);
    const parsed = JSON.parse(input) as { readonly status: unknown };
    assert.equal(parsed.status, 'ok');
    assert.notEqual(reply.result.trim(), '');
    assert.ok(reply.events.length <= limits.eventsPerAttemptMax);
    const fields = [reply.events, reply.stateUpdates ?? null, reply.logs, reply.result];
    assert.equal(describeUnsafeJson(fields, limits.jsonDepthMax + 4), undefined);
    for (const { type, dedupeKey = '' } of reply.events) {
      assert.ok(type !== '' && Buffer.byteLength(type) <= limits.eventTypeBytesMax);
      assert.ok(Buffer.byteLength(dedupeKey) <= limits.dedupeKeyBytesMax);
    }
    return `ok ${reply.events.length > 0} ${reply.logs.length > 0}`;
  },
};

function assertFailure(reply: Exclude<Reply, { kind: 'ok' }>): string {
  const { kind, message } = reply;
  assertStorable(message);
  assert.ok(message.length <= limits.errorCharsMax + 1);
  assert.notEqual(message, '');
  if (kind !== 'error') assert.doesNotMatch(message, /[\p{Cc}\u2028\u2029]/u);
  return `${kind} ${message.replace(/: .*/s, '')}`;
}

function assertStorable(text: string): void {
  assert.ok(text.isWellFormed() && !text.includes('\0'));
}

const spec = {
  entrypoint: '/p/run',
  cwd: '/p',
  env: { A: '1', LANG: 'C=x' },
  timeoutMs: 1000,
  killGraceMs: 100,
  drainMs: 10,
  stdoutBytesMax: 9,
  stderrBytesMax: 8,
  limits: { memoryBytes: 64, fileBytes: 2 ** 40, processes: 3, cpuMs: 5 },
};
const run = { id: 7, pid: 42, spawnUs: 9, runUs: 12_345, cpuUs: 8, memoryPeakBytes: undefined };
const flags = { stdoutOverflowed: false, stderrTruncated: true, hostFull: false };
const said = { stdout: Buffer.from('{"status":"ok"}'), stderr: Buffer.from('oh') };

const requests = [
  { type: 'start', id: 7, hold: false, spec, request: Buffer.from('{}') },
  {
    type: 'start',
    id: 8,
    hold: true,
    spec: { ...spec, wrapper: ['w', '-x'] },
    request: said.stdout,
  },
  { type: 'feed', id: 7, timeoutMs: 5, request: Buffer.from('{}') },
  { type: 'stop', id: 7, reason: 'fenced' },
  { type: 'renew', ms: 9000 },
  { type: 'bye' },
] as const;

const events = [
  { type: 'hello', version: 2, kind: 'native' },
  { type: 'ready' },
  { type: 'started', id: 7, pid: 42 },
  { type: 'spoiled', id: 7 },
  { type: 'end', kind: 'exited', code: 0, stopped: undefined, ...run, ...flags, ...said },
  { type: 'end', kind: 'signalled', code: 9, stopped: 'timeout', ...run, ...flags, ...said },
  { type: 'end', kind: 'unstarted', code: 2, stopped: undefined, ...run, ...flags, ...said },
] as const;

const textOf = (pieces: readonly Buffer[]): string => Buffer.concat(pieces).toString('latin1');

/** Splits the bytes into frames; each is refused with one kind of error, or is valid. */
function checkFrames<T extends { readonly type: string }>(
  input: string,
  decode: (frame: Buffer) => T,
  encode: (decoded: T) => Buffer[],
): string {
  const types: string[] = [];
  const reader = makeFrameSplitter((frame) => {
    const decoded = decode(frame);
    const again = decode(Buffer.concat(encode(decoded)).subarray(4));
    assert.deepEqual(again, decoded);
    types.push(decoded.type);
  });
  try {
    const bytes = Buffer.from(input, 'latin1');
    const middle = Math.floor(bytes.length / 3);
    reader.push(bytes.subarray(0, middle));
    reader.push(bytes.subarray(middle));
  } catch (thrown) {
    if (!(thrown instanceof DuctileError)) throw thrown;
    assert.equal(thrown.code, 'SPAWNER_FAILED');
    types.push(thrown.message);
  }
  return types.slice(0, 3).join(' ');
}

const bytes = ['\x01', '\x10DUCT\x02\x00\x01', '\x14', '\x00\x00\x00', '\xff\xff\xff\xff', 'A=1\0'];

const toSpawner: Target = {
  name: 'frames-to-spawner',
  examples: requests.map((request) => textOf(encodeSpawnerRequest(request))),
  words: bytes,
  check: (input) => checkFrames(input, decodeSpawnerRequest, encodeSpawnerRequest),
};

const fromSpawner: Target = {
  name: 'frames-from-spawner',
  examples: events.map((event) => textOf(encodeSpawnerEvent(event))),
  words: bytes,
  check: (input) => checkFrames(input, decodeSpawnerEvent, encodeSpawnerEvent),
};

const manifest: Target = {
  name: 'manifest',
  share: 0.1,
  examples: [
    `manifest_spec: ductile.plugin
manifest_version: 1
name: echo
version: 1.0.0
protocol: 2
entrypoint: run.sh
commands:
  - name: poll
    type: write
    idempotent: true
    input_schema: {type: object, properties: {a: {type: string}}}
`,
    `name: x
version: 0.1.0
protocol: 2
entrypoint: run
commands: {poll: read, handle: write}
config_keys: {required: [url], optional: [a.b]}
`,
  ],
  words: [
    '\n',
    ': ',
    '- ',
    '  ',
    'name: ',
    'commands:',
    'entrypoint: ../x',
    'protocol: 99',
    '[]',
    'input_schema: {$ref: "#"}',
    'pattern: "(a+)+$"',
    'required',
    '{}',
    '&a',
    '*a',
    '!!x',
    '"',
  ],
  check(input) {
    const document = parseDocument(input, 'manifest.yaml');
    if (document.value === undefined) return 'no document';
    const parsed = parseManifest(document);
    return JSON.stringify(parsed, ['ok', 'problems', 'message']).slice(0, 60);
  },
};

fuzzing('fuzz-plugins', { cases: 20_000 }, [response, toSpawner, fromSpawner, manifest]);
