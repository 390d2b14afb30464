import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Arm, Measures } from '../frame.ts';
import { buildNative, canBuildNative } from '../native.ts';
import { hasPeers, peerFile } from '../peers.ts';
import { freePort } from '../postgres.ts';
import { webhookBody, signDelivery, type Proof } from '../programs/webhook-load.ts';
import { findCommand, runNode, track } from '../program.ts';
import { settings } from '../settings.ts';
import { emptyDirectory } from '../work.ts';

const SECRET = 'bench-secret';
const READY_MS = 60_000;

/** Peers that start a process for a delivery and return its output; they store nothing. */
export default [goWebhook(32), goWebhook(8), goWebhook(1), nodeRed(32)];

/** github.com/adnanh/webhook, as Debian packages it. */
function goWebhook(connections: number): Arm {
  const start = async (port: number): Promise<ChildProcess> => {
    const directory = await emptyDirectory('webhook');
    const match = {
      type: 'payload-hmac-sha256',
      secret: SECRET,
      parameter: { source: 'header', name: 'X-Signature' },
    };
    const hook = {
      id: 'bench',
      'execute-command': await buildNative('plug'),
      'include-command-output-in-response': true,
      'trigger-rule': { match },
    };
    const hooks = join(directory, 'hooks.json');
    await writeFile(hooks, JSON.stringify([hook]));
    return spawn('webhook', ['-hooks', hooks, '-ip', '127.0.0.1', '-port', String(port)]);
  };
  return {
    name: `webhook (Go), connections: ${connections}`,
    async available() {
      const isThere = (await findCommand('webhook')) !== undefined;
      return isThere ? await canBuildNative() : 'webhook is not installed (apt install webhook)';
    },
    run: async () => await load(start, connections, '/hooks/bench'),
  };
}

/** Node-RED's exec node, in the mode without a shell. It verifies nothing. */
function nodeRed(connections: number): Arm {
  const start = async (port: number): Promise<ChildProcess> => {
    const directory = await emptyDirectory('node-red');
    const at = { z: 'n0', x: 0, y: 0 };
    const flow = [
      { id: 'n0', type: 'tab', label: 'bench' },
      { ...at, id: 'n1', type: 'http in', url: '/bench', method: 'post', wires: [['n2']] },
      { ...at, ...exec, id: 'n2', wires: [['n3'], [], []] },
      { ...at, id: 'n3', type: 'http response', statusCode: '200', wires: [] },
    ];
    await writeFile(join(directory, 'flows.json'), JSON.stringify(flow));
    const options = { ...nodeRedSettings, uiPort: port, userDir: directory };
    const file = join(directory, 'settings.cjs');
    await writeFile(file, `module.exports = ${JSON.stringify(options)};\n`);
    const program = peerFile('node-red', 'red.js');
    return spawn(process.execPath, [program, '--settings', file, '--userDir', directory]);
  };
  return {
    name: `Node-RED, exec node, connections: ${connections}`,
    available: async () => await hasPeers('node-red'),
    run: async () => await load(start, connections, '/bench'),
  };
}

/** Node-RED leaves the standard input of its process open, so the program must not read it. */
const exec = {
  type: 'exec',
  command: '/bin/echo {}',
  addpay: '',
  append: '',
  useSpawn: 'true',
};

const nodeRedSettings = {
  flowFile: 'flows.json',
  uiHost: '127.0.0.1',
  httpAdminRoot: false,
  disableEditor: true,
  credentialSecret: false,
  telemetry: { enabled: false },
  logging: { console: { level: 'off', metrics: false, audit: false } },
};

async function load(
  start: (port: number) => Promise<ChildProcess>,
  connections: number,
  path: string,
): Promise<Measures> {
  const port = await freePort();
  const proof = signDelivery('x-signature', SECRET);
  const child = await start(port);
  track(child);
  child.stdout?.resume();
  child.stderr?.resume();
  try {
    await isAnswering(`http://127.0.0.1:${port}${path}`, proof, child);
    return await runNode('http-load', {
      port,
      connections,
      warmUpSeconds: settings.webhookWarmUpSeconds,
      warmUpConnections: settings.warmUpConnections,
      seconds: settings.httpSeconds,
      path,
      proof,
      body: webhookBody,
      status: 200,
    });
  } finally {
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
  }
}

/** Checks that the peer responds correctly; it may listen for a while before it does. */
async function isAnswering(url: string, [name, value]: Proof, child: ChildProcess): Promise<void> {
  const headers = { 'content-type': 'application/json', [name]: value };
  const until = performance.now() + READY_MS;
  while (performance.now() < until && child.exitCode === null) {
    const answer = await fetch(url, { method: 'POST', headers, body: webhookBody }).catch(
      () => undefined,
    );
    await answer?.text();
    if (answer?.status === 200) return;
    await pause(50);
  }
  throw new Error(`nobody answers at ${url}`);
}
