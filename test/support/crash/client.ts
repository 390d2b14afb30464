/** A client that submits work over the control socket and remembers the outcome of each request. */
import { request } from 'node:http';
import { dirname } from 'node:path';
import type { Json, JsonObject } from '../../../src/base/json.ts';
import { readControlKey } from '../../../src/http/control-socket.ts';
import type { Wish } from './recorder.ts';

/**
 * The knowledge of a client, in the sense of Jepsen: `acknowledged` certainly happened, `refused`
 * certainly did not, and `unknown` may have happened.
 */
export type Outcome = 'acknowledged' | 'refused' | 'unknown';

export interface Operation {
  /** Travels in the payload, so that the job can be found whatever the answer was. */
  readonly ref: number;
  readonly outcome: Outcome;
  /** The code of the error, where there was one. */
  readonly code?: string;
  readonly jobId?: string;
  readonly runId?: string;
}

export interface Client {
  readonly history: readonly Operation[];
  /** How many of them. */
  readonly acknowledged: number;
  enqueue(wish?: Wish): Promise<Operation>;
  /** How many jobs wait or run; undefined when nobody knows. */
  backlog(): Promise<number | undefined>;
  /** A run of a pipeline is not known to be over. */
  hasRuns(): Promise<boolean>;
  get(path: string): Promise<Answer>;
  post(path: string, body?: JsonObject): Promise<Answer>;
  remove(path: string): Promise<Answer>;
}

interface Answer {
  readonly status: number;
  readonly body: JsonObject;
}

const patienceMs = 60_000;
const noAnswer: Answer = { status: 0, body: {} };
const NOBODY = 'NO_SERVER';
const notConnected = new Set(['ECONNREFUSED', 'ENOENT', NOBODY]);
/** With these, what was asked for may have been done. */
const unsure = new Set(['LEDGER_UNCERTAIN', 'INTERNAL']);

/** `control` says where to ask; undefined when nobody is there. */
export function makeClient(control: () => string | undefined): Client {
  const history: Operation[] = [];
  let lastRef = 0;
  let acknowledged = 0;
  const ask = (method: string, path: string, body?: object): Promise<Answer> => {
    const socketPath = control();
    if (socketPath !== undefined) return send(socketPath, method, path, body);
    return Promise.reject(Object.assign(new Error('no server runs'), { code: NOBODY }));
  };
  return {
    history,
    get acknowledged() {
      return acknowledged;
    },
    async enqueue(wish = {}) {
      const ref = (lastRef += 1);
      const asking = ask('POST', pathOf(wish), { payload: { ref, ...wish, ...itemsOf(wish) } });
      const operation: Operation = { ref, ...(await asking.then(judge, judgeFailure)) };
      // A request without a listener was not received.
      if (operation.code !== NOBODY) history.push(operation);
      if (operation.outcome === 'acknowledged') acknowledged += 1;
      return operation;
    },
    async backlog() {
      const { status, body } = await ask('GET', '/queue?limit=1').catch(() => noAnswer);
      if (status !== 200) return undefined;
      return Number(body['ready']) + Number(body['delayed']) + Number(body['running']);
    },
    async hasRuns() {
      const path = '/runs?status=queued,running&limit=1';
      const { status, body } = await ask('GET', path).catch(() => noAnswer);
      return status !== 200 || (body['runs'] as Json[]).length > 0;
    },
    get: (path) => ask('GET', path),
    post: (path, body) => ask('POST', path, body),
    remove: (path) => ask('DELETE', path),
  };
}

function pathOf({ key, dedupe, items }: Wish): string {
  const query = new URLSearchParams({
    ...(key === undefined ? {} : { dependency: key }),
    // The key of a job is for what follows from it.
    ...(dedupe === undefined || items === undefined ? {} : { dedupe_key: dedupe }),
  });
  return `${items === undefined ? '/plugin/recorder' : '/pipeline/spread'}?${query.toString()}`;
}

/** A pipeline is given its elements: each of them is ten times its place. */
function itemsOf({ items }: Wish): { items?: number[] } {
  return items === undefined ? {} : { items: Array.from({ length: items }, (_, n) => 10 * n) };
}

function judge({ status, body }: Answer): Omit<Operation, 'ref'> {
  if (status < 300) {
    const { run_id: runId = null, job_id: jobId } = body as { run_id?: string; job_id: string };
    return { outcome: 'acknowledged', ...(runId === null ? { jobId } : { runId }) };
  }
  const code = body['code'] as string;
  return { outcome: unsure.has(code) ? 'unknown' : 'refused', code };
}

function judgeFailure(error: NodeJS.ErrnoException): Omit<Operation, 'ref'> {
  const { code = error.message } = error;
  return { outcome: notConnected.has(code) ? 'refused' : 'unknown', code };
}

function send(socketPath: string, method: string, path: string, body?: object): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = proofOf(socketPath);
    const exchange = request({ socketPath, method, path, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => (text += part));
      response.on('error', reject).on('end', () => {
        resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as JsonObject });
      });
    });
    exchange.setTimeout(patienceMs, () => exchange.destroy(new Error('no answer came')));
    exchange.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** With tenants, whoever asks must show that they can read the state directory. */
function proofOf(socketPath: string): Record<string, string> {
  const key = readControlKey(socketPath, { stateDir: dirname(socketPath) });
  return key === undefined ? {} : { authorization: `Control ${key}` };
}
