/** A client that submits work over the control socket and remembers the outcome of each request. */
import { request } from 'node:http';
import { dirname } from 'node:path';
import type { Json, JsonObject } from '../../../src/base/json.ts';
import { readControlKey } from '../../../src/http/control-socket.ts';
import type { JobOptions } from './recorder.ts';

/**
 * The knowledge of a client about a request, as in Jepsen: `acknowledged` certainly happened, `refused`
 * certainly didn't, and `unknown` may have happened.
 */
export type Outcome = 'acknowledged' | 'refused' | 'unknown';

export interface Operation {
  /** Part of the payload, so that the job can be found after any response. */
  readonly ref: number;
  readonly outcome: Outcome;
  /** Error code, if the request failed. */
  readonly code?: string;
  readonly jobId?: string;
  readonly runId?: string;
}

export interface Client {
  readonly history: readonly Operation[];
  /** Number of acknowledged requests. */
  readonly acknowledged: number;
  enqueue(jobOptions?: JobOptions): Promise<Operation>;
  /** Returns the number of queued and running jobs; undefined if no service responds. */
  backlog(): Promise<number | undefined>;
  /** Returns false if all runs have certainly ended. */
  hasRuns(): Promise<boolean>;
  get(path: string): Promise<ClientResponse>;
  post(path: string, body?: JsonObject): Promise<ClientResponse>;
  remove(path: string): Promise<ClientResponse>;
}

interface ClientResponse {
  readonly status: number;
  readonly body: JsonObject;
}

const timeoutMs = 120_000;
const noResponse: ClientResponse = { status: 0, body: {} };
const NO_SERVER = 'NO_SERVER';
const notConnectedCodes = new Set(['ECONNREFUSED', 'ENOENT', NO_SERVER]);
/** Error codes after which the request may have been executed. */
const uncertainCodes = new Set(['LEDGER_UNCERTAIN', 'INTERNAL']);

/** `control` returns the control socket of a running service, if any. */
export function makeClient(control: () => string | undefined): Client {
  const history: Operation[] = [];
  let lastRef = 0;
  let acknowledged = 0;
  const sendTo = (method: string, path: string, body?: object): Promise<ClientResponse> => {
    const socketPath = control();
    if (socketPath !== undefined) return send(socketPath, method, path, body);
    return Promise.reject(Object.assign(new Error('no server runs'), { code: NO_SERVER }));
  };
  return {
    history,
    get acknowledged() {
      return acknowledged;
    },
    async enqueue(jobOptions = {}) {
      const ref = (lastRef += 1);
      const pending = sendTo('POST', pathOf(jobOptions), {
        payload: { ref, ...jobOptions, ...itemsOf(jobOptions) },
      });
      const operation: Operation = { ref, ...(await pending.then(toOutcome, toFailureOutcome)) };
      // A request without a listener was not received.
      if (operation.code !== NO_SERVER) history.push(operation);
      if (operation.outcome === 'acknowledged') acknowledged += 1;
      return operation;
    },
    async backlog() {
      const { status, body } = await sendTo('GET', '/queue?limit=1').catch(() => noResponse);
      if (status !== 200) return undefined;
      return Number(body['ready']) + Number(body['delayed']) + Number(body['running']);
    },
    async hasRuns() {
      const path = '/runs?status=queued,running&limit=1';
      const { status, body } = await sendTo('GET', path).catch(() => noResponse);
      return status !== 200 || (body['runs'] as Json[]).length > 0;
    },
    get: (path) => sendTo('GET', path),
    post: (path, body) => sendTo('POST', path, body),
    remove: (path) => sendTo('DELETE', path),
  };
}

function pathOf({ key, dedupe, items }: JobOptions): string {
  const query = new URLSearchParams({
    ...(key === undefined ? {} : { dependency: key }),
    // The key of a job is for its followers.
    ...(dedupe === undefined || items === undefined ? {} : { dedupe_key: dedupe }),
  });
  return `${items === undefined ? '/plugin/recorder' : '/pipeline/spread'}?${query.toString()}`;
}

/** Creates the elements of a pipeline: ten times their index. */
function itemsOf({ items }: JobOptions): { items?: number[] } {
  return items === undefined ? {} : { items: Array.from({ length: items }, (_, n) => 10 * n) };
}

function toOutcome({ status, body }: ClientResponse): Omit<Operation, 'ref'> {
  if (status < 300) {
    const { run_id: runId = null, job_id: jobId } = body as { run_id?: string; job_id: string };
    return { outcome: 'acknowledged', ...(runId === null ? { jobId } : { runId }) };
  }
  const code = body['code'] as string;
  return { outcome: uncertainCodes.has(code) ? 'unknown' : 'refused', code };
}

function toFailureOutcome(error: NodeJS.ErrnoException): Omit<Operation, 'ref'> {
  const { code = error.message } = error;
  return { outcome: notConnectedCodes.has(code) ? 'refused' : 'unknown', code };
}

function send(
  socketPath: string,
  method: string,
  path: string,
  body?: object,
): Promise<ClientResponse> {
  return new Promise((resolve, reject) => {
    const headers = proofOf(socketPath);
    const exchange = request({ socketPath, method, path, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('error', reject).on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as JsonObject });
      });
    });
    exchange.setTimeout(timeoutMs, () => exchange.destroy(new Error('no answer came')));
    exchange.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Reads the key of the control socket, which exists once there are tenants. */
function proofOf(socketPath: string): Record<string, string> {
  const key = readControlKey(socketPath, { stateDir: dirname(socketPath) });
  return key === undefined ? {} : { authorization: `Control ${key}` };
}
