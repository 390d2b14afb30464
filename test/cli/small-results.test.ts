/**
 * No result of `--json` or of a tool is over 8 KB unless the caller asks for more. Every command and
 * every tool is tried with the program itself on an installation with much data. Every command that
 * changes something takes `--dry-run` and `--apply` in the same way.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import { commands, type CommandDefinition } from '../../src/cli/commands.ts';
import { nameWords } from '../../src/cli/help.ts';
import { launch, root, type Server } from '../support/crash/server.ts';
import { toAgent, type Agent } from '../support/mcp-client.ts';
import { ATTEMPTS, JOB, makePopulated, ROWS, SIGNAL, STEPS } from '../support/populated.ts';

const id = (kind: number): string => `01990000-0000-7000-8000-${kind}00000000001`;

/** Commands that would wait, end the service or need what isn't there; what they print is short. */
const untried: Readonly<Record<string, string>> = {
  'system.prove': 'it kills copies of the system for minutes',
};

let directory: string;
let server: Server;
let agent: Agent;
/** The run with two hundred steps. */
let run = '';
const ends: (() => Promise<unknown>)[] = [];

const TOGETHER = 'dry_run and apply cannot be used together';

beforeAll(async () => {
  ({ directory } = await makePopulated());
  const later = (chore: () => Promise<void>): void => void ends.push(chore);
  server = launch(directory, '', {}, { later });
  await server.ready;
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [join(root, 'bin/ductile.cjs'), 'mcp', '--config', directory],
    env: { HOME: directory, PATH: process.env['PATH'] ?? '' },
    stderr: 'inherit',
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  ends.push(() => client.close());
  agent = toAgent(client);
  for (let index = 0; index < 40; index += 1) {
    const webhook = { title: `hook ${index}`, id: `hook-${index}`, plugin: 'plugin-1' };
    await agent.call('webhook_add', {
      ...webhook,
      description: 'Says what it is for. '.repeat(10),
    });
    await agent.call('token_create', { name: `token-${index}`, role: 'member' });
  }
  const made = await Promise.all([
    agent.call('package_install', { package: 'package-1' }),
    agent.call('tenant_create', { slug: 'acme' }),
  ]);
  expect(made.filter(({ isError }) => isError)).toEqual([]);
  const { data } = await agent.call('pipeline_run', { pipeline: 'long', async: true });
  ({ run_id: run } = data['answer'] as { run_id: string });
});

afterAll(async () => {
  for (const end of ends.toReversed()) await end();
});

/** The input of each operation; operations without input are left out. */
function inputs(): Readonly<Record<string, JsonObject>> {
  const plugin = { plugin: 'plugin-1' };
  const job = { id: JOB };
  const webhook = { id: 'hook-1' };
  const tenant = { slug: 'acme' };
  const pack = { package: 'package-1' };
  const to = join(directory, 'copy');
  return {
    'system.backup': { to },
    'system.export': { to },
    'system.reset': plugin,
    'plugin.new': { plugin: 'made', lang: 'sh', dir: directory },
    'plugin.test': { directory: join(directory, 'plugins/plugin-1') },
    'plugin.inspect': plugin,
    'plugin.run': { ...plugin, command: 'poll' },
    'plugin.openapi': plugin,
    'plugin.health': plugin,
    'plugin.init': plugin,
    'plugin.facts': plugin,
    'plugin.enable': plugin,
    'plugin.disable': plugin,
    'pipeline.show': { pipeline: 'long' },
    'pipeline.check': { pipeline: 'long' },
    'pipeline.graph': { pipeline: 'long' },
    'pipeline.test': { pipeline: 'long', assume_ok: true },
    'pipeline.run': { pipeline: 'flow-1' },
    'job.inspect': job,
    'job.wait': job,
    'job.tree': job,
    'job.cancel': job,
    'job.retry': job,
    'jobs.cancel': { plugin: 'plugin-1', status: ['queued'] },
    'jobs.retry': { plugin: 'plugin-1', status: ['dead'] },
    'why.explain': job,
    'incident.list': { all: true },
    'incident.show': { id: id(4) },
    'incident.acknowledge': { id: 'job_dead:plugin-1/poll' },
    'schedule.preview': { to: new Date(Date.now() + 3 * 86_400_000).toISOString() },
    'schedule.pause': plugin,
    'schedule.resume': plugin,
    'run.show': { id: run },
    'run.wait': { id: run },
    'run.tree': { id: run },
    'run.cancel': { id: run },
    'run.revive': { id: run },
    'run.retry-from': { id: run, step: 'step-1' },
    'run.approve': { id: run, step: 'step-1' },
    'run.reject': { id: run, step: 'step-1' },
    'directive.show': { id: id(5) },
    'directive.request': { type: 'plugin.disable', params: plugin },
    'directive.approve': { id: id(5) },
    'directive.cancel': { id: id(5) },
    'tenant.create': tenant,
    'tenant.show': tenant,
    'tenant.suspend': tenant,
    'tenant.resume': tenant,
    'tenant.limit': { ...tenant, workers: 2 },
    'tenant.delete': { ...tenant, confirm: 'acme' },
    'tenant.token': { ...tenant, name: 'one' },
    'credential.set': { name: 'mail' },
    'credential.show': { name: 'mail' },
    'credential.delete': { name: 'mail' },
    'webhook.add': { title: 'another', plugin: 'plugin-1' },
    'webhook.edit': { ...webhook, title: 'other' },
    'webhook.show': webhook,
    'webhook.remove': webhook,
    'webhook.rotate': webhook,
    'webhook.deliveries': webhook,
    'webhook.delivery': { delivery_id: id(3) },
    'webhook.replay': { delivery_id: id(3) },
    'webhook.test': webhook,
    'token.create': { name: 'another', role: 'member' },
    'token.revoke': { token: 'token-1' },
    'token.rotate': { token: 'token-1' },
    'signal.show': { id: SIGNAL },
    'signal.emit': { type: 'mail.arrived', source: 'shop' },
    'signal.emit-many': { signals: [{ type: 'mail.arrived' }] },
    'signal.replay': { id: SIGNAL },
    'package.show': pack,
    'package.validate': { directory: join(directory, 'packages/package-1') },
    'package.install': { package: 'package-2' },
    'package.upgrade': pack,
    'package.enable': pack,
    'package.disable': pack,
    'package.uninstall': pack,
    'installation.show': { installation: 'package-1' },
    'config.get': { path: 'plugins' },
    'config.set': { assignment: 'service.max_workers=3' },
    'config.unset': { path: 'service.max_workers' },
    'config.init': { directory: join(directory, 'new') },
    'config.backup': { to: join(directory, 'config.tar.gz') },
    'config.restore': { archive: join(directory, 'config.tar.gz') },
  };
}

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function ductile(...args: readonly string[]): Promise<Ran> {
  const script = join(root, 'bin/ductile.cjs');
  const env = { PATH: process.env['PATH'], HOME: directory };
  const all = [script, ...args, '--config', directory];
  const options = { env, cwd: directory, maxBuffer: 64 * 1024 * 1024 };
  return new Promise((done) => {
    const child = execFile(process.execPath, all, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      done({ code, stdout, stderr });
    });
    child.stdin?.end('a-secret-value');
  });
}

/** The words of a command line that gives an operation this input. */
function wordsOf(definition: CommandDefinition): string[] {
  const { name, positionals = [], flags = {} } = definition;
  const { [name]: input = {} } = inputs();
  const text = (value: unknown): string => {
    if (Array.isArray(value)) return value.join(',');
    return typeof value === 'string' ? value : JSON.stringify(value);
  };
  const values = positionals.flatMap((field) => (field in input ? [text(input[field])] : []));
  const rest = Object.entries(input).filter(([field]) => !positionals.includes(field));
  const options = rest.flatMap(([field, value]) => {
    const [, flag = `--${field.replaceAll('_', '-')}`] =
      /(--[a-z-]+)/.exec(flags[field] ?? '') ?? [];
    return value === true ? [flag] : [flag, text(value)];
  });
  return [...nameWords(definition), ...values, ...options];
}

function parse(text: string): JsonObject {
  return JSON.parse(text) as JsonObject;
}

/** A new command that needs something has to be named above, or it would be tried with nothing. */
test('every command that requires an argument has one here', () => {
  const inputByName = inputs();
  const missing = commands.flatMap(({ name, fields, secrets }) =>
    fields
      .filter(({ field, required }) => required && !secrets.includes(field))
      .filter(({ field }) => !(name in untried) && !(field in (inputByName[name] ?? {})))
      .map(({ field }) => `${name}: ${field}`),
  );
  expect(missing).toEqual([]);
});

const reads = commands.filter(({ effect }) => effect === 'read');
const writes = commands.filter(({ effect, name }) => effect !== 'read' && !(name in untried));

describe('--json', () => {
  test.each(reads.map((definition) => [definition.name, definition] as const))(
    '%s prints at most 8 KB, and says what is left out',
    async (_, definition) => {
      const { stdout, stderr } = await ductile(...wordsOf(definition), '--json');
      expect(stderr).not.toMatch(/INPUT_INVALID|INTERNAL/);
      expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(limits.resultBytes);
      if (stdout === '') return expect(parse(stderr)['code']).toMatch(/_NOT_FOUND$/);
      const { cut } = parse(stdout);
      if (cut === undefined) return;
      expect(cut).toMatchObject({
        whole_bytes: expect.any(Number),
        parts: expect.arrayContaining([expect.objectContaining({ at: expect.any(String) })]),
        commands: expect.arrayContaining([expect.stringMatching(/^ductile .* --json/)]),
      });
      expect(stderr).toContain('note: this is ');
    },
  );

  test.each(writes.map((definition) => [definition.name, definition] as const))(
    '%s takes --dry-run and --apply like every other command that changes something',
    async (name, definition) => {
      const words = [...wordsOf(definition), '--json'];
      const both = await ductile(...words, '--dry-run', '--apply');
      expect([name, both.code, both.stdout]).toEqual([name, 2, '']);
      expect(parse(both.stderr)).toMatchObject({
        code: 'INPUT_INVALID',
        error: TOGETHER,
      });
      const dry = await ductile(...words, '--dry-run');
      expect(Buffer.byteLength(dry.stdout)).toBeLessThanOrEqual(limits.resultBytes);
      expect(Buffer.byteLength(dry.stderr)).toBeLessThanOrEqual(limits.resultBytes);
      // A dry run refuses impossible changes, too, but never because of its flags.
      if (dry.stdout !== '') expect(parse(dry.stdout)).toMatchObject({ dry_run: true });
      else expect(parse(dry.stderr)['code']).not.toMatch(/INPUT_INVALID|INTERNAL/);
    },
  );

  test.each([
    ['watch', '--once'],
    ['logs'],
    ['logs', '--core'],
    ['skills', 'export', '--dry-run'],
    ['init', '--dir', './x', '--dry-run'],
    ['system', 'migrate', '--dry-run'],
    ['ui'],
    ['version'],
  ])('%s prints at most 8 KB', async (...words) => {
    const { stdout, stderr } = await ductile(...words, '--json');
    expect(Buffer.byteLength(stdout)).toBeLessThanOrEqual(limits.resultBytes);
    expect(Buffer.byteLength(stderr)).toBeLessThanOrEqual(limits.resultBytes);
  });

  test.each([
    ['system', 'migrate'],
    ['system', 'restore', '--from', 'x'],
    ['system', 'import', '--from', 'x'],
    ['init'],
    ['skills', 'export'],
  ])('%s refuses --dry-run together with --apply', async (...words) => {
    const { code, stderr } = await ductile(...words, '--json', '--dry-run', '--apply');
    expect([code, parse(stderr)['error']]).toEqual([2, TOGETHER]);
  });

  test('all attempts of a job are there: folded at first, one by one with --full', async () => {
    const small = parse((await ductile('job', 'show', JOB, '--json')).stdout);
    expect(small['attempts']).toMatchObject([{ folded: `${ATTEMPTS} × crash`, attempt: ATTEMPTS }]);
    const full = parse((await ductile('job', 'show', JOB, '--json', '--full')).stdout);
    expect(full['attempts']).toHaveLength(ATTEMPTS);
    expect(full).not.toHaveProperty('cut');
    const picked = await ductile(
      'job',
      'inspect',
      JOB,
      '--json',
      '--fields',
      'status,attempts.cause',
    );
    expect(parse(picked.stdout)).toEqual({
      status: 'dead',
      attempts: Array.from({ length: ATTEMPTS }, () => ({ cause: 'crash' })),
    });
  });

  test('the pages of a list that was cut have every row once', async () => {
    const seen: unknown[] = [];
    let words = ['job', 'list', '--status', 'dead', '--json'];
    for (;;) {
      const page = parse((await ductile(...words)).stdout) as JsonObject & { jobs: JsonObject[] };
      seen.push(...page.jobs.map(({ job_id }) => job_id));
      if (typeof page['next_cursor'] !== 'string') break;
      words = ['job', 'list', '--status', 'dead', '--json', '--cursor', page['next_cursor']];
    }
    const all = await ductile('job', 'list', '--status', 'dead', '--json', '--limit', '1000');
    const ids = (parse(all.stdout)['jobs'] as JsonObject[]).map(({ job_id }) => job_id);
    expect(seen).toEqual(ids);
    expect(new Set(seen).size).toBe(ROWS);
  });

  test('names of fields are checked, and pick columns for people too', async () => {
    const wrong = await ductile('job', 'list', '--json', '--fields', 'stauts');
    expect([wrong.code, parse(wrong.stderr)]).toMatchObject([
      2,
      { code: 'INPUT_INVALID', place: 'fields', hint: 'Did you mean status?' },
    ]);
    const { stdout } = await ductile('job', 'list', '--fields', 'status,plugin', '--limit', '1');
    expect(stdout).toMatch(/^STATUS +PLUGIN\n\w+ +\S+\n$/);
  });
});

describe('a tool', () => {
  test('returns at most 8 KB, each of them', async () => {
    const names = await agent.names();
    const tried = commands.filter(({ name }) => names.includes(name.replaceAll(/[.-]/g, '_')));
    expect(tried.length).toBeGreaterThan(80);
    const all = inputs();
    const large: unknown[] = [];
    for (const { name, effect } of tried) {
      const operationInput = { ...all[name], ...(effect === 'read' ? {} : { dry_run: true }) };
      const { text, data } = await agent.call(name.replaceAll(/[.-]/g, '_'), operationInput);
      if (Buffer.byteLength(text) > limits.resultBytes) large.push([name, text.length]);
      const { error } = data as { error?: { code: string } };
      expect([name, error?.code]).not.toEqual([name, 'INPUT_INVALID']);
      if (effect === 'read') continue;
      const both = await agent.call(name.replaceAll(/[.-]/g, '_'), {
        ...operationInput,
        apply: true,
      });
      expect([name, both.data['error']]).toMatchObject([name, { message: TOGETHER }]);
    }
    expect(large).toEqual([]);
  });

  test('folds attempts, and expands them', async () => {
    const { data } = await agent.call('job_inspect', { id: JOB });
    expect(data['answer']).toMatchObject({ attempts: [{ folded: `${ATTEMPTS} × crash` }] });
    const [fold] = data['cut'] as [{ handle: string }];
    expect(fold).toMatchObject({ at: '/attempts', kind: 'folded', total: ATTEMPTS, shown: 1 });
    const more = await agent.call('expand', { handle: fold.handle });
    expect(more.data).toMatchObject({ total: ATTEMPTS, from: 0 });
    const [first] = more.data['part'] as JsonObject[];
    expect(first).toMatchObject({ attempt: 1, cause: 'crash' });
  });

  test('returns pages whose cursors skip no row, and handles that lead to all of them', async () => {
    const seen: unknown[] = [];
    let cursor: JsonObject = {};
    for (;;) {
      const { data } = await agent.call('job_list', { status: ['dead'], ...cursor });
      const { jobs, next_cursor: next } = data['answer'] as JsonObject & { jobs: JsonObject[] };
      seen.push(...jobs.map(({ job_id }) => job_id));
      const [cut] = (data['cut'] ?? []) as [{ handle: string; total: number }?];
      if (cut?.total !== undefined) {
        const more = await agent.call('expand', { handle: cut.handle, budget: 100_000 });
        expect(more.data['part']).toHaveLength(cut.total);
      }
      if (typeof next !== 'string') break;
      cursor = { cursor: next };
    }
    const all = await agent.call('job_list', { status: ['dead'], limit: 1000, budget: 400_000 });
    const { jobs } = all.data['answer'] as { jobs: JsonObject[] };
    expect(seen).toEqual(jobs.map(({ job_id }) => job_id));
    expect(new Set(seen).size).toBe(ROWS);
  });

  test('returns the fields that were named', async () => {
    const { data } = await agent.call('run_show', { id: run, fields: 'status,steps.step' });
    const { steps } = data['answer'] as { steps: JsonObject[] };
    expect(steps.every((step) => Object.keys(step).join() === 'step')).toBe(true);
    expect(steps.length).toBeLessThanOrEqual(STEPS);
  });
});
