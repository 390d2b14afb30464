/**
 * Secrets in every possible place (credentials, environment, configuration, deliveries), which a
 * plugin repeats in every possible way. None is found in the database's files, its backup, logs,
 * signals, responses of the API or pages.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { eventually } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { dumpLedger } from '../support/leak-search.ts';
import { encodingsOf, makeCanaries, type Canary } from './secrets/canaries.ts';
import { campaign } from './support/campaign.ts';

/** The complete number of trials. */
const SLICES = 16;

/** Repeats its input: as its response, as logs, in keys, and in lines that are not a response. */
const leaky = python(`
import base64, re, urllib.parse
def ways(value):
    raw = value.encode()
    yield from (value, json.dumps(value, ensure_ascii=False), json.dumps(value))
    yield from (urllib.parse.quote(value, safe="!'()*-._~"), urllib.parse.quote_plus(value, safe="!'()*-._~"))
    for before in (b"", b"u", b"u:"):
        yield base64.b64encode(before + raw).decode()
        yield base64.urlsafe_b64encode(before + raw).decode()
    yield from (raw.hex(), raw.hex().upper())
    strict = urllib.parse.quote(value, safe="")
    yield from (strict, re.sub("%..", lambda code: code[0].lower(), strict), urllib.parse.quote(strict, safe=""))
    yield json.dumps(json.dumps({"inner": json.dumps(value)}))
values = list(request["config"]["canaries"].values()) + list(os.environ.values())
texts = [way for value in values for way in ways(value)]
how = payload.get("how")
if how == "stderr":
    for line in texts: sys.stderr.write(line + "\\n")
    sys.exit(3)
if how == "garbage":
    print("not JSON", *texts)
    sys.exit(0)
if how == "error": fail("refused " + " ".join(texts[:200]))
ok(" ".join(texts), logs=[{"level": "warn", "message": line} for line in texts],
  events=[{"type": "thing.told", "payload": {"deep": [{"as": texts}], **{line: 1 for line in texts[:50]}}}],
  state_updates={"last": texts})`);

campaign('secrets', { trials: 1, timeoutMs: 300_000 }, async ({ random, index }) => {
  const canaries = makeCanaries(random).filter((_, at) => at % SLICES === index % SLICES);
  const [environment, token, webhookSecret] = makeCanaries(random);
  if (environment === undefined || token === undefined || webhookSecret === undefined)
    throw new Error();
  process.env['DUCTILE_CANARY'] = environment.value;
  const directory = await makeDirectory();
  const database = index % 2 === 1 ? 'postgres' : 'sqlite';
  const api = await start({ canaries, token, webhookSecret, database });
  try {
    await plant(api, canaries);
    for (const how of ['ok', 'stderr', 'garbage', 'error']) await runLeaky(api, how);
    const sinks = await readSinks(api, directory);
    const planted = [...canaries, environment, token, webhookSecret];
    expect(findLeaks(sinks, planted)).toEqual([]);
    expect(sinks['table job_log']).toContain('[credential:');
    const searched = Object.values(sinks).reduce((sum, text) => sum + text.length, 0);
    const counts = { canaries: planted.length, sinks: Object.keys(sinks).length };
    return { ...counts, spellings: planted.length * 8, charactersSearched: searched };
  } finally {
    delete process.env['DUCTILE_CANARY'];
    await api.close();
  }
});

interface Setting {
  readonly canaries: readonly Canary[];
  readonly token: Canary;
  readonly webhookSecret: Canary;
  readonly database: 'sqlite' | 'postgres';
}

function start({ canaries, token, webhookSecret, database }: Setting): Promise<TestApi> {
  const references = canaries.map(({ name }) => [name, `credential:${name}`] as const);
  const tokens = [
    { name: 'owner', token: OWNER, scopes: ['*'] },
    { name: 'other', token: token.value, scopes: ['jobs:ro'] },
  ];
  const endpoint = {
    path: '/hook/x',
    plugin: 'echo',
    secret_ref: 'hook',
    signature_header: 'X-Sig',
  };
  return startApi({
    database,
    api: { auth: { tokens } },
    tokens: [{ name: 'hook', key: webhookSecret.value, scopes: [] }],
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    plugins: {
      leaky: { config: { canaries: Object.fromEntries(references) }, retry: { max_attempts: 1 } },
    },
    routes: [{ event_type: 'thing.told', to: 'echo' }],
    prepare: async (directory) => {
      const files = { name: 'leaky', entrypoint: 'run', program: leaky };
      await writePlugin(join(directory, 'plugins', 'leaky'), files);
    },
  });
}

async function plant(api: TestApi, canaries: readonly Canary[]): Promise<void> {
  for (const { name, value } of canaries) {
    const reply = await api.ask('/credentials', { body: JSON.stringify({ name, value }) });
    expect([name, reply.status]).toEqual([name, 200]);
  }
}

async function runLeaky(api: TestApi, how: string): Promise<void> {
  const body = JSON.stringify({ payload: { how } });
  const { body: accepted } = await api.ask('/plugin/leaky/poll', { body });
  const status = await eventually(`${how} is over`, async () => {
    const { body: job } = await api.ask(`/job/${String(accepted['job_id'])}`);
    return ['succeeded', 'dead', 'failed'].includes(String(job['status'])) && job['status'];
  });
  expect([how, status]).toEqual([how, how === 'ok' ? 'succeeded' : 'dead']);
}

/** All stored and all displayed texts, by name. */
async function readSinks(api: TestApi, directory: string): Promise<Record<string, string>> {
  const { engine } = api.server.instance;
  const backup = await api.ask('/system/backup', {
    body: JSON.stringify({ to: join(directory, 'b') }),
  });
  expect(backup.status).toBe(200);
  const sinks: Record<string, string> = {
    log: JSON.stringify(api.records),
    ring: JSON.stringify(engine.ring.read({ limit: 10_000 })),
    ui: (await api.ask('/ui/')).text,
  };
  for (const [table, text] of Object.entries(await dumpLedger(engine.ledger))) {
    sinks[`table ${table}`] = text;
  }
  for (const { http } of operations) {
    if (!isOffered(http) || http.method !== 'GET' || /:|^\/events/.test(http.path)) continue;
    sinks[`GET ${http.path}`] = (await api.ask(http.path)).text;
  }
  for (const file of filesBelow(directory)) sinks[`backup ${file}`] = readFileSync(file, 'latin1');
  const { state } = api.server.instance.config;
  for (const file of filesBelow(state.dir)) sinks[`file ${file}`] = readFileSync(file, 'latin1');
  return sinks;
}

function filesBelow(directory: string): string[] {
  const entries = readdirSync(directory, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
}

function findLeaks(sinks: Readonly<Record<string, string>>, planted: readonly Canary[]): string[] {
  return planted.flatMap(({ name, value }) =>
    Object.entries(encodingsOf(value)).flatMap(([encoding, text]) =>
      Object.entries(sinks)
        .filter(([, content]) => content.includes(text) || content.includes(inLatin1(text)))
        .map(([sink]) => `${name} (${value.slice(0, 8)}…) as ${encoding} in ${sink}`),
    ),
  );
}

/** The form in the bytes of a file. */
function inLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}
