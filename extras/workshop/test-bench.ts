import { limits } from '../../src/base/limits.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { Manifest } from '../../src/plugin/manifest.ts';
import type { Host, ProcessEnd, ProcessSpec } from '../../src/plugin/process.ts';
import { decodeResponse } from '../../src/plugin/protocol.ts';
import type { Reply } from '../../src/plugin/protocol.ts';
import { encodeTrial } from './examples.ts';
import type { Example } from './examples.ts';

/** Test bench for a plugin: the runtime's own host, requests and parser. */
export interface Bench {
  readonly manifest: Manifest;
  readonly exampleOf: (command: string) => Example;
  readonly ask: (command: string, how?: How) => Promise<Asked>;
  readonly specOf: (command: string) => ProcessSpec;
  /** Duration of the slowest response, which also shows how fast this machine is. */
  readonly slowestMs: () => number;
}

export interface How {
  /** Replaces parts of the example. */
  readonly with?: Partial<Example>;
  /** Members that only a later runtime would send. */
  readonly later?: JsonObject;
  /** Starts the process before its request. */
  readonly isHeld?: boolean;
}

export interface Asked {
  readonly reply: Reply;
  readonly end: ProcessEnd;
}

export interface BenchParts {
  readonly host: Host;
  readonly manifest: Manifest;
  readonly directory: string;
  readonly entrypoint: string;
  readonly env: Readonly<Record<string, string>>;
  readonly exampleOf: (command: string) => Example;
}

export function makeBench(parts: BenchParts): Bench {
  const { host, manifest, exampleOf } = parts;
  const usual = new Map<string, number>(Object.entries(limits.timeoutMs));
  const specOf = (command: string): ProcessSpec => ({
    entrypoint: parts.entrypoint,
    cwd: parts.directory,
    env: parts.env,
    timeoutMs: usual.get(command) ?? limits.timeoutDefaultMs,
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
    async ask(command, { with: instead = {}, later, isHeld = false } = {}) {
      const spec = specOf(command);
      const { timeoutMs } = spec;
      const example = { ...exampleOf(command), ...instead };
      const timing = later === undefined ? { timeoutMs } : { timeoutMs, later };
      const request = encodeTrial(manifest, command, example, timing);
      const end = await (isHeld ? host.hold(spec).feed(request) : host.run(spec, request));
      slowestMs = Math.max(slowestMs, end.spawnMs + end.runMs);
      return { reply: decodeResponse(end, { timeoutMs }), end };
    },
  };
}
