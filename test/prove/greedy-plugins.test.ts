/**
 * A tenant's plugin that uses all available resources: memory in hidden descendants, processes, CPU
 * time and files, several at once. Each attempt ends with its cause, nothing of it remains, and the
 * jobs of the other tenants succeed meanwhile.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { makeTenant, type TestTenant } from '../support/tenants.ts';
import { campaign } from './support/campaign.ts';

/**
 * The payload says what it does, with a bound, so that a limit that fails harms nothing. A plugin
 * of a tenant sees no home directory, so its Python is the system's.
 */
const greedy = python(`
import os, signal
want = request["payload"]
mib = b"x" * (1 << 20)

def take():
    taken = []
    for _ in range(300):
        taken.append(bytearray(mib))
    time.sleep(20)

def child(work):
    if os.fork() == 0:
        work()
        os._exit(0)

def hide(work):
    def leave():
        os.setsid()
        child(work)
    child(leave)

kind = want["take"]
if kind == "memory":
    take()
elif kind == "memory of a grandchild":
    child(lambda: (child(take), os.wait()))
    os.wait()
elif kind == "memory of many":
    for _ in range(6):
        child(lambda: (bytearray(os.urandom(1 << 20) * 40), time.sleep(20)))
    time.sleep(20)
elif kind == "memory of one that hides":
    hide(take)
    time.sleep(20)
elif kind == "processes":
    for _ in range(200):
        child(lambda: time.sleep(20))
    time.sleep(20)
elif kind == "processes that fork":
    def grow(depth):
        for _ in range(3):
            if depth > 0:
                child(lambda: grow(depth - 1))
        time.sleep(20)
    grow(5)
elif kind == "time":
    while True: pass
elif kind == "time of many":
    for _ in range(2):
        child(lambda: sum(0 for _ in iter(int, 1)))
    time.sleep(20)
elif kind == "a file":
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with open("/tmp/large", "wb") as file:
        for _ in range(64):
            file.write(mib)
ok("took it")
`).replace(/^#!.*/, '#!/usr/bin/python3 -IS');

const kinds: Readonly<Record<string, string>> = {
  memory: 'out_of_memory',
  'memory of a grandchild': 'out_of_memory',
  'memory of many': 'out_of_memory',
  'memory of one that hides': 'out_of_memory',
  processes: 'process_limit',
  'processes that fork': 'process_limit',
  time: 'cpu_limit',
  'time of many': 'cpu_limit',
  'a file': 'file_size_limit',
};
/** On a machine that is busy with other things it takes a while to use up CPU time. */
const PATIENCE_MS = 60_000;
const limits = { memory: '96MiB', processes: 30, cpu: '1500ms', file_size: '16MiB' };

campaign('greedy-plugins', { trials: 1, timeoutMs: 300_000 }, async ({ random }) => {
  const api = await startApi({
    plugins: { greedy: { shared: true, parallelism: 2, retry: { max_attempts: 1 } } },
    tenants: { limits },
    async prepare(place) {
      const files = { name: 'greedy', entrypoint: 'run', program: greedy };
      const commands = 'concurrency_safe: true\ncommands: {take: {}}';
      await writePlugin(join(place, 'plugins/greedy'), { ...files, commands });
    },
  });
  try {
    const tenant = await makeTenant(api);
    const order = Object.keys(kinds).toSorted(() => random() - 0.5);
    let others = 0;
    for (let at = 0; at < order.length; at += 2) {
      const pair = order.slice(at, at + 2).map((take) => attack(tenant, take));
      others += await workBeside(api, Promise.all(pair));
      for (const [index, { cause, take, error }] of (await Promise.all(pair)).entries()) {
        expect([take, cause], String(error)).toEqual([order[at + index], kinds[take]]);
      }
    }
    await eventually('nothing of them is left', () => countMarked() === 0);
    return { attempts: order.length, succeeded_meanwhile: others };
  } finally {
    await api.close();
  }
});

interface AttackResult {
  readonly take: string;
  readonly cause: unknown;
  readonly error: unknown;
}

async function attack(tenant: TestTenant, take: string): Promise<AttackResult> {
  const response = await tenant.post('/plugin/greedy/take', { payload: { take } });
  const path = `/job/${String(response.body['job_id'])}`;
  const look = async () => {
    const { body } = await tenant.ask(path);
    return body['completed_at'] === null ? undefined : body;
  };
  const what = `the attempt at ${take} has ended`;
  const ended = await eventually(what, look, PATIENCE_MS);
  const [attempt] = ended['attempts'] as readonly Record<string, unknown>[];
  return { take, cause: attempt?.['cause'], error: attempt?.['last_error'] };
}

/** Jobs of the root ledger, one after the other until the attack is over. */
async function workBeside(api: TestApi, attacks: Promise<unknown>): Promise<number> {
  const over = new AbortController();
  void attacks.finally(() => over.abort()).catch(() => undefined);
  let done = 0;
  while (!over.signal.aborted) {
    const { status, body } = await api.ask('/plugin/echo/poll?wait=30s', { body: '{}' });
    expect([status, body['status']]).toEqual([200, 'succeeded']);
    done += 1;
  }
  return done;
}

/** Processes of attempts, wherever they went; one that cleared its environment is not found here. */
function countMarked(): number {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const isOurs = readFileSync(`/proc/${pid}/environ`, 'latin1').includes('DUCTILE_ATTEMPT=');
      return isOurs && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('/greedy/run');
    } catch {
      return false;
    }
  }).length;
}
