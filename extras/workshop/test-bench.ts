import { limits } from '../../src/base/limits.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import type { Host, ProcessEnd, ProcessSpec } from '../../src/plugin/process.ts';
import { decodeResponse } from '../../src/plugin/protocol.ts';
import type { Reply } from '../../src/plugin/protocol.ts';
import { encodeTestRequest } from './examples.ts';
import type { Example } from './examples.ts';

/** Test bench for a plugin, with the spawner, the requests and the parser that the service uses. */
export interface TestBench {
  readonly manifest: Manifest;
  readonly exampleOf: (command: string) => Example;
  readonly send: (command: string, options?: SendOptions) => Promise<TestReply>;
  readonly specOf: (command: string) => ProcessSpec;
  /** Duration of the slowest response, which also shows how fast this machine is. */
  readonly slowestMs: () => number;
}

export interface SendOptions {
  /** Replaces parts of the example. */
  readonly with?: Partial<Example>;
  /** Members that only a later version of Ductile would send. */
  readonly extraMembers?: JsonObject;
  /** Starts the process first, and sends the request afterwards. */
  readonly isPrewarmed?: boolean;
}

export interface TestReply {
  readonly reply: Reply;
  readonly end: ProcessEnd;
}

export interface TestBenchParts {
  readonly host: Host;
  readonly manifest: Manifest;
  readonly directory: string;
  readonly entrypoint: string;
  readonly env: Readonly<Record<string, string>>;
  readonly exampleOf: (command: string) => Example;
}

export function makeTestBench(parts: TestBenchParts): TestBench {
  const { host, manifest, exampleOf } = parts;
  const defaults = new Map<string, number>(Object.entries(limits.timeoutMs));
  const specOf = (command: string): ProcessSpec => ({
    entrypoint: parts.entrypoint,
    cwd: parts.directory,
    env: parts.env,
    timeoutMs: defaults.get(command) ?? limits.timeoutDefaultMs,
    killGraceMs: limits.killGraceMs,
    drainMs: limits.drainMs,
    stdoutBytesMax: limits.stdoutBytesMax,
    stderrBytesMax: limits.stderrBytesMax,
  });
  let slowestMs = 0;
  return {
    manifest,
    exampleOf,
    specOf,
    slowestMs: () => slowestMs,
    async send(command, { with: replaced = {}, extraMembers, isPrewarmed = false } = {}) {
      const spec = specOf(command);
      const { timeoutMs } = spec;
      const example = { ...exampleOf(command), ...replaced };
      const timing = extraMembers === undefined ? { timeoutMs } : { timeoutMs, extraMembers };
      const request = encodeTestRequest(manifest, command, example, timing);
      const end = await (isPrewarmed ? host.hold(spec).feed(request) : host.run(spec, request));
      slowestMs = Math.max(slowestMs, end.spawnMs + end.runMs);
      return { reply: decodeResponse(end, { timeoutMs }), end };
    },
  };
}
