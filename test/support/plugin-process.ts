import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { isObject, type JsonObject } from '../../src/base/json.ts';
import { parseResponse, type PluginResponse } from '../../src/plugin/response.ts';

export const pluginsRoot = resolve(import.meta.dirname, '../../plugins');

const binaries = resolve(import.meta.dirname, '../../node_modules/.bin');
const killAfterMs = 20_000;

/** The real path of python3: the shim of a version manager takes longer than the plugins. */
const python = execFileSync(
  'python3',
  ['-c', 'import os, sys; print(os.path.dirname(sys.executable))'],
  {
    encoding: 'utf8',
  },
).trim();
const path = [binaries, python, process.env['PATH'] ?? ''].join(delimiter);

/** Parts of a request that a test sets; the rest has defaults. */
export interface RequestParts {
  readonly command: string;
  readonly config?: JsonObject;
  readonly state?: JsonObject;
  readonly payload?: JsonObject;
  readonly event?: JsonObject;
  readonly attempt?: number;
  readonly deadline_at?: string;
  readonly idempotency_key?: string;
  readonly api?: JsonObject;
}

export interface PluginRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Response as Ductile parses it. */
  readonly response: PluginResponse;
}

export type OkResponse = Extract<PluginResponse, { status: 'ok' }>;
export type ErrorResponse = Extract<PluginResponse, { status: 'error' }>;

/** Runs a shipped plugin like the service: its own process group, a clean environment, one request. */
export function runPlugin(name: string, request: RequestParts): Promise<PluginRun> {
  return feedPlugin(name, encodeParts(request));
}

export function encodeParts(request: RequestParts): string {
  return `${JSON.stringify({ ...defaults, ...request })}\n`;
}

/** Runs a plugin that must succeed, and returns its response. */
export async function runOk(name: string, request: RequestParts): Promise<OkResponse> {
  const { code, stdout, stderr, response } = await runPlugin(name, request);
  if (response.status === 'ok' && code === 0) return response;
  throw new Error(`${name} ended with ${code}: ${stdout}${stderr}`);
}

/** Runs a plugin that must fail, and returns its response and exit code. */
export async function runError(
  name: string,
  request: RequestParts,
): Promise<Omit<ErrorResponse, 'status' | 'logs'> & { readonly code: number | null }> {
  const { code, stdout, stderr, response } = await runPlugin(name, request);
  if (response.status === 'error') {
    const { error, retry, retryAfterMs } = response;
    return { error, retry, retryAfterMs, code };
  }
  throw new Error(`${name} did not fail but ended with ${code}: ${stdout}${stderr}`);
}

/** Runs a plugin with any input. */
export async function feedPlugin(name: string, input: string | Buffer): Promise<PluginRun> {
  const child = spawn(entrypointOf(name), {
    cwd: join(pluginsRoot, name),
    detached: true,
    env: {
      PATH: path,
      HOME: process.env['HOME'] ?? '/',
      LANG: 'C.UTF-8',
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
    },
  });
  const timer = setTimeout(() => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  }, killAfterMs);
  // A plugin may end without having read everything.
  child.stdin.on('error', () => undefined).end(input);
  const [stdout, stderr, code] = await Promise.all([
    collect(child.stdout),
    collect(child.stderr),
    new Promise<number | null>((done, failed) => {
      child.on('error', failed).on('close', done);
    }),
  ]).finally(() => clearTimeout(timer));
  return {
    code,
    stdout: stdout.toString(),
    stderr: stderr.toString(),
    response: parseResponse(stdout),
  };
}

export function entrypointOf(name: string): string {
  const manifest = readFileSync(join(pluginsRoot, name, 'manifest.yaml'), 'utf8');
  return join(pluginsRoot, name, (parse(manifest) as { entrypoint: string }).entrypoint);
}

/** Returns the payload of the first event, which must exist. */
export function payloadOf({ events: [event] }: OkResponse): JsonObject {
  if (event !== undefined && isObject(event.payload)) return event.payload;
  throw new Error('there is no event with an object as its payload');
}

const defaults = {
  protocol: 2,
  job_id: '01890000-0000-7000-8000-000000000001',
  instance: 'under-test',
  attempt: 1,
  idempotency_key: 'root/step/0',
  config: {},
  state: {},
  context: {},
  payload: {},
  deadline_at: '2999-01-01T00:00:00.000Z',
};

async function collect(stream: NodeJS.ReadableStream): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
