/**
 * The frames between the service and a spawner. native/wire.h is the other side and shows the
 * layout. Change both together, with a new version. Numbers are little-endian.
 */
import { DuctileError } from '../../base/errors.ts';
import type { ProcessLimits, ProcessSpec, StopReason } from '../process.ts';

export const WIRE_VERSION = 3;
/** The number of words that fits in the flags of a start. */
const WRAPPER_WORDS_MAX = 127;
const FRAME_BYTES_MAX = 256 * 1024 * 1024;
const U32_MAX = 0xffff_ffff;
const MAGIC = 'DUCT';
const SPAWNER_KINDS = ['native', 'node'] as const;
const REASONS = [
  'timeout',
  'cancelled',
  'output',
  'fenced',
  'shutdown',
  'memory',
  'processes',
  'cpu',
  'file_size',
] as const;
/** Encodes an unknown number. */
const UNKNOWN = 0xffff_ffff_ffff_ffffn;
const START_FIXED_BYTES = 57;
const END_FIXED_BYTES = 47;

const types = {
  start: 1,
  feed: 2,
  stop: 3,
  renew: 4,
  bye: 5,
  hello: 16,
  ready: 17,
  started: 18,
  spoiled: 19,
  end: 20,
} as const;

/** The minimum body size by type. */
const FIXED_BYTES: Readonly<Record<number, number>> = {
  [types.start]: START_FIXED_BYTES,
  [types.feed]: 8,
  [types.stop]: 5,
  [types.renew]: 4,
  [types.hello]: 7,
  [types.started]: 8,
  [types.spoiled]: 4,
  [types.end]: END_FIXED_BYTES,
};

export type SpawnerKind = (typeof SPAWNER_KINDS)[number];

export interface SpawnerStart {
  readonly type: 'start';
  readonly id: number;
  /** True to keep stdin open and empty until a feed. */
  readonly hold: boolean;
  readonly spec: ProcessSpec;
  readonly request: Buffer;
}

export interface SpawnerFeed {
  readonly type: 'feed';
  readonly id: number;
  readonly timeoutMs: number;
  readonly request: Buffer;
}

export type SpawnerRequest =
  | SpawnerStart
  | SpawnerFeed
  | { readonly type: 'stop'; readonly id: number; readonly reason: StopReason }
  | { readonly type: 'renew'; readonly ms: number }
  | { readonly type: 'bye' };

const EXIT_KINDS = ['exited', 'signalled', 'unstarted'] as const;

export interface SpawnerEnd {
  readonly type: 'end';
  readonly id: number;
  readonly kind: (typeof EXIT_KINDS)[number];
  /** The exit code, signal number or errno. */
  readonly code: number;
  readonly stopped: StopReason | undefined;
  readonly stdoutOverflowed: boolean;
  readonly stderrTruncated: boolean;
  readonly hostFull: boolean;
  /** 0 if it never started. */
  readonly pid: number;
  readonly spawnUs: number;
  readonly runUs: number;
  readonly cpuUs: number | undefined;
  readonly memoryPeakBytes: number | undefined;
  readonly stdout: Buffer;
  readonly stderr: Buffer;
}

export type SpawnerEvent =
  | { readonly type: 'hello'; readonly version: number; readonly kind: SpawnerKind }
  | { readonly type: 'ready' }
  | { readonly type: 'started'; readonly id: number; readonly pid: number }
  | { readonly type: 'spoiled'; readonly id: number }
  | SpawnerEnd;

/** Encodes a frame in pieces, so that a large body isn't copied. */
export function encodeSpawnerRequest(request: SpawnerRequest): Buffer[] {
  switch (request.type) {
    case 'start':
      return encodeStart(request);
    case 'feed': {
      const fixed = [...u32(request.id), ...u32(request.timeoutMs)];
      return [makeHead(types.feed, fixed, request.request.length), request.request];
    }
    case 'stop':
      return [makeHead(types.stop, [...u32(request.id), 1 + REASONS.indexOf(request.reason)])];
    case 'renew':
      return [makeHead(types.renew, u32(request.ms))];
    default:
      return [makeHead(types.bye, [])];
  }
}

export function encodeSpawnerEvent(event: SpawnerEvent): Buffer[] {
  switch (event.type) {
    case 'hello': {
      const kind = 1 + SPAWNER_KINDS.indexOf(event.kind);
      const version = [event.version & 0xff, event.version >> 8];
      return [makeHead(types.hello, [...Buffer.from(MAGIC), ...version, kind])];
    }
    case 'ready':
      return [makeHead(types.ready, [])];
    case 'started':
      return [makeHead(types.started, [...u32(event.id), ...u32(event.pid)])];
    case 'spoiled':
      return [makeHead(types.spoiled, u32(event.id))];
    default:
      return encodeEnd(event);
  }
}

/** Decodes type and body, as a frame splitter returns them. */
export function decodeSpawnerRequest(frame: Buffer): SpawnerRequest {
  const body = bodyOf(frame);
  switch (frame[0]) {
    case types.start:
      return decodeStart(body);
    case types.feed: {
      const [id, timeoutMs] = [body.readUInt32LE(0), body.readUInt32LE(4)];
      return { type: 'feed', id, timeoutMs, request: body.subarray(8) };
    }
    case types.stop:
      return { type: 'stop', id: body.readUInt32LE(0), reason: toReason(body[4]) ?? 'cancelled' };
    case types.renew:
      return { type: 'renew', ms: body.readUInt32LE(0) };
    case types.bye:
      return { type: 'bye' };
    default:
      throw badFrame(`unknown request ${String(frame[0])}`);
  }
}

export function decodeSpawnerEvent(frame: Buffer): SpawnerEvent {
  const body = bodyOf(frame);
  switch (frame[0]) {
    case types.hello: {
      const kind = SPAWNER_KINDS[(body[6] ?? 0) - 1];
      if (body.toString('latin1', 0, 4) !== MAGIC || kind === undefined) throw badFrame('no hello');
      return { type: 'hello', version: body.readUInt16LE(4), kind };
    }
    case types.ready:
      return { type: 'ready' };
    case types.started:
      return { type: 'started', id: body.readUInt32LE(0), pid: body.readUInt32LE(4) };
    case types.spoiled:
      return { type: 'spoiled', id: body.readUInt32LE(0) };
    case types.end:
      return decodeEnd(body);
    default:
      throw badFrame(`unknown event ${String(frame[0])}`);
  }
}

function bodyOf(frame: Buffer): Buffer {
  const body = frame.subarray(1);
  if (body.length >= (FIXED_BYTES[frame[0] ?? 0] ?? 0)) return body;
  throw badFrame(`${String(frame[0])} with only ${body.length} bytes`);
}

interface FrameSplitter {
  /** Throws SPAWNER_FAILED for invalid data. */
  push(chunk: Buffer): void;
}

/** Splits a stream into frames. A large frame is joined once. */
export function makeFrameSplitter(onFrame: (frame: Buffer) => void): FrameSplitter {
  let held: Buffer[] = [];
  let heldBytes = 0;
  let neededBytes = 4;

  return {
    push(chunk) {
      held.push(chunk);
      heldBytes += chunk.length;
      if (heldBytes < neededBytes) return;
      const bytes = held.length === 1 ? chunk : Buffer.concat(held, heldBytes);
      let at = 0;
      neededBytes = 4;
      while (bytes.length - at >= 4) {
        const length = bytes.readUInt32LE(at);
        if (length === 0 || length > FRAME_BYTES_MAX) throw badFrame(`a frame of ${length} bytes`);
        neededBytes = 4 + length;
        if (bytes.length - at < neededBytes) break;
        onFrame(bytes.subarray(at + 4, at + neededBytes));
        at += neededBytes;
        neededBytes = 4;
      }
      heldBytes = bytes.length - at;
      held = heldBytes === 0 ? [] : [bytes.subarray(at)];
    },
  };
}

function encodeStart({ id, hold, spec, request }: SpawnerStart): Buffer[] {
  const env = Object.entries(spec.env);
  const { wrapper = [] } = spec;
  if (wrapper.length > WRAPPER_WORDS_MAX) throw badFrame(`a wrapper of ${wrapper.length} words`);
  let text = [...wrapper, spec.entrypoint, spec.cwd, ''].join('\0');
  for (const [key, value] of env) text += `${key}=${value}\0`;
  const textBytes = Buffer.byteLength(text);
  const fixed = 5 + START_FIXED_BYTES;
  const head = Buffer.allocUnsafe(fixed + textBytes);
  head.writeUInt32LE(fixed - 4 + textBytes + request.length, 0);
  head[4] = types.start;
  let at = head.writeUInt32LE(id, 5);
  at = head.writeUInt8((hold ? 1 : 0) | (wrapper.length << 1), at);
  const { timeoutMs, killGraceMs, drainMs, stdoutBytesMax, stderrBytesMax } = spec;
  for (const number of [timeoutMs, killGraceMs, drainMs, stdoutBytesMax, stderrBytesMax]) {
    at = head.writeUInt32LE(toU32(number), at);
  }
  at = head.writeUInt32LE(env.length, at);
  at = head.writeUInt32LE(textBytes, at);
  at = writeLimits(head, spec.limits ?? {}, at);
  head.write(text, at);
  return request.length === 0 ? [head] : [head, request];
}

function decodeStart(body: Buffer): SpawnerStart {
  const textEnd = START_FIXED_BYTES + body.readUInt32LE(29);
  if (textEnd > body.length || body[textEnd - 1] !== 0) throw badFrame('a start without its text');
  const flags = body.readUInt8(4);
  const words = body.toString('utf8', START_FIXED_BYTES, textEnd - 1).split('\0');
  const wrapper = words.splice(0, flags >> 1);
  const [entrypoint, cwd, ...pairs] = words;
  if (entrypoint === undefined || cwd === undefined || pairs.length !== body.readUInt32LE(25)) {
    throw badFrame('a start with the wrong number of words');
  }
  const limits = readLimits(body, 33);
  const spec: ProcessSpec = {
    entrypoint,
    cwd,
    ...(limits === undefined ? {} : { limits }),
    ...(wrapper.length === 0 ? {} : { wrapper }),
    env: Object.fromEntries(pairs.map(toEntry)),
    timeoutMs: body.readUInt32LE(5),
    killGraceMs: body.readUInt32LE(9),
    drainMs: body.readUInt32LE(13),
    stdoutBytesMax: body.readUInt32LE(17),
    stderrBytesMax: body.readUInt32LE(21),
  };
  const hold = (flags & 1) !== 0;
  return { type: 'start', id: body.readUInt32LE(0), hold, spec, request: body.subarray(textEnd) };
}

/** 0 means unlimited, so a limit is at least 1. */
function writeLimits(head: Buffer, limits: ProcessLimits, offset: number): number {
  const { memoryBytes = 0, fileBytes = 0, processes = 0, cpuMs = 0 } = limits;
  let at = head.writeBigUInt64LE(BigInt(Math.ceil(memoryBytes)), offset);
  at = head.writeBigUInt64LE(BigInt(Math.ceil(fileBytes)), at);
  at = head.writeUInt32LE(toU32(processes), at);
  return head.writeUInt32LE(toU32(cpuMs), at);
}

function readLimits(body: Buffer, at: number): ProcessLimits | undefined {
  const given = {
    memoryBytes: fromU64(body.readBigUInt64LE(at)) ?? 0,
    fileBytes: fromU64(body.readBigUInt64LE(at + 8)) ?? 0,
    processes: body.readUInt32LE(at + 16),
    cpuMs: body.readUInt32LE(at + 20),
  };
  const set = Object.entries(given).filter(([, value]) => value !== 0);
  return set.length === 0 ? undefined : Object.fromEntries(set);
}

function toU64(number: number | undefined): bigint {
  return number === undefined ? UNKNOWN : BigInt(Math.round(number));
}

function fromU64(value: bigint): number | undefined {
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? undefined : Number(value);
}

function toEntry(pair: string): [string, string] {
  const equals = pair.indexOf('=', 1);
  if (equals === -1) throw badFrame('a variable without a value');
  return [pair.slice(0, equals), pair.slice(equals + 1)];
}

function encodeEnd(end: SpawnerEnd): Buffer[] {
  const { stdout, stderr } = end;
  const head = Buffer.allocUnsafe(5 + END_FIXED_BYTES);
  head.writeUInt32LE(1 + END_FIXED_BYTES + stdout.length + stderr.length, 0);
  head[4] = types.end;
  let at = head.writeUInt32LE(end.id, 5);
  at = head.writeUInt8(EXIT_KINDS.indexOf(end.kind), at);
  at = head.writeInt32LE(end.code, at);
  at = head.writeUInt8(end.stopped === undefined ? 0 : 1 + REASONS.indexOf(end.stopped), at);
  const flags =
    (end.stdoutOverflowed ? 1 : 0) | (end.stderrTruncated ? 2 : 0) | (end.hostFull ? 4 : 0);
  at = head.writeUInt8(flags, at);
  at = head.writeUInt32LE(end.pid, at);
  at = head.writeUInt32LE(toU32(end.spawnUs), at);
  at = head.writeBigUInt64LE(BigInt(Math.round(end.runUs)), at);
  at = head.writeUInt32LE(stdout.length, at);
  at = head.writeBigUInt64LE(toU64(end.cpuUs), at);
  head.writeBigUInt64LE(toU64(end.memoryPeakBytes), at);
  return [head, stdout, stderr];
}

function decodeEnd(body: Buffer): SpawnerEnd {
  const flags = body.readUInt8(10);
  const stdoutEnd = END_FIXED_BYTES + body.readUInt32LE(27);
  const kind = EXIT_KINDS[body.readUInt8(4)];
  const runUs = Number(body.readBigUInt64LE(19));
  if (kind === undefined || stdoutEnd > body.length || !Number.isSafeInteger(runUs)) {
    throw badFrame('an invalid end');
  }
  return {
    type: 'end',
    id: body.readUInt32LE(0),
    kind,
    code: body.readInt32LE(5),
    stopped: toReason(body[9]),
    stdoutOverflowed: (flags & 1) !== 0,
    stderrTruncated: (flags & 2) !== 0,
    hostFull: (flags & 4) !== 0,
    pid: body.readUInt32LE(11),
    spawnUs: body.readUInt32LE(15),
    runUs,
    cpuUs: fromU64(body.readBigUInt64LE(31)),
    memoryPeakBytes: fromU64(body.readBigUInt64LE(39)),
    stdout: body.subarray(END_FIXED_BYTES, stdoutEnd),
    stderr: body.subarray(stdoutEnd),
  };
}

/** Encodes length, type and a small body; `moreBytes` of the body follow. */
function makeHead(type: number, body: readonly number[], moreBytes = 0): Buffer {
  return Buffer.from([...u32(1 + body.length + moreBytes), type, ...body]);
}

function u32(number: number): number[] {
  const value = toU32(number);
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24];
}

function toU32(number: number): number {
  return Math.min(U32_MAX, Math.max(0, Math.ceil(number)));
}

function toReason(code: number | undefined): StopReason | undefined {
  return REASONS[(code ?? 0) - 1];
}

function badFrame(what: string): DuctileError {
  return new DuctileError('SPAWNER_FAILED', `The spawner's protocol is broken: ${what}.`);
}
