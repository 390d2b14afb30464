/** The request of each command line, and the message about a wrong one. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import type { CliSession } from '../../src/cli/host.ts';
import { actionGroups, commandGroups } from '../../src/cli/help.ts';
import { makeProgram } from '../../src/cli/program.ts';
import { doctorParts } from '../../src/insight/finding.ts';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { makeDirectory } from '../support/directory.ts';
import { job, run } from '../support/fake-cli.ts';

describe('the request of a command line', () => {
  test.each<[string, string, unknown]>([
    ['system status', 'system.status', {}],
    ['status', 'system.status', {}],
    ['plugin list', 'plugin.list', {}],
    ['plugins', 'plugin.list', {}],
    ['queue list -n 3', 'queue.list', { limit: 3 }],
    ['queue', 'queue.list', {}],
    ['queue -n 3', 'queue.list', { limit: 3 }],
    ['job list', 'job.list', {}],
    [
      'job list -p mail --command poll --status failed,dead --status queued -n 7 --cursor abc',
      'job.list',
      {
        plugin: 'mail',
        command: 'poll',
        status: ['failed', 'dead', 'queued'],
        limit: 7,
        cursor: 'abc',
      },
    ],
    ['job list --limit many', 'job.list', { limit: 'many' }],
    ['job show 0199', 'job.inspect', { id: '0199' }],
    ['breaker list', 'system.breaker', {}],
    ['breaker list --plugin mail', 'system.breaker', { plugin: 'mail' }],
    ['breaker show mail -n 3', 'system.breaker', { plugin: 'mail', limit: 3 }],
    ['config show', 'config.show', {}],
    ['config show --active --json', 'config.view', {}],
    ['job logs --job 0199 -p 123', 'job.logs', { job_id: '0199', plugin: '123' }],
    ['logs', 'job.logs', { limit: 20 }],
    ['job cancel 0199 --dry-run', 'job.cancel', { id: '0199', dry_run: true }],
    ['system backup --to copy.db', 'system.backup', { to: '/somewhere/copy.db' }],
    ['system backup --to /tmp/copy.db', 'system.backup', { to: '/tmp/copy.db' }],
    ['plugin run mail', 'plugin.run', { plugin: 'mail', wait: '5m' }],
    ['run mail', 'plugin.run', { plugin: 'mail', wait: '5m' }],
    ['run list', 'run.list', {}],
    ['run show 0199', 'run.show', { id: '0199' }],
    [
      'run retry-from 0199 publish',
      'run.retry-from',
      { id: '0199', step: 'publish', context: true },
    ],
    ['run shown', 'plugin.run', { plugin: 'shown', wait: '5m' }],
    [
      'pipeline run digest --delay 5m --dedupe-key 7 --dedupe-ttl 1h --no-wait',
      'pipeline.run',
      { pipeline: 'digest', delay: '5m', dedupe_key: '7', dedupe_ttl: '1h', wait: false },
    ],
    ['plugin run mail --no-wait', 'plugin.run', { plugin: 'mail', wait: false }],
    ['plugin run mail --wait 30s', 'plugin.run', { plugin: 'mail', wait: '30s' }],
    [
      'plugin run mail --command handle --payload {"a":1} --context {"b":[2]} --dedupe-key 7',
      'plugin.run',
      {
        plugin: 'mail',
        command: 'handle',
        payload: { a: 1 },
        context: { b: [2] },
        dedupe_key: '7',
        wait: '5m',
      },
    ],
  ])('ductile %s', async (line, name, input) => {
    const { calls } = await run(line.split(' '));
    expect(calls).toEqual([[name, input]]);
  });

  test('ductile logs of a plugin without lines also checks that the plugin exists', async () => {
    const { calls } = await run(['logs', 'mail', '-n', '2']);
    expect(calls).toEqual([
      ['job.logs', { plugin: 'mail', limit: 2 }],
      ['plugin.list', {}],
    ]);
  });

  test.each(['--json', '-v', '--verbose', '--config /etc/x'])('%s goes anywhere', async (flag) => {
    for (const line of [
      `job list ${flag} -n 2`,
      `${flag} job list -n 2`,
      `job ${flag} list -n 2`,
    ]) {
      expect((await run(line.split(' '))).calls).toEqual([['job.list', { limit: 2 }]]);
    }
  });

  test('a payload can come from a file or from standard input', async () => {
    const cwd = await makeDirectory();
    writeFileSync(join(cwd, 'p.json'), '{"from":"file"}');
    const file = await run(['plugin', 'run', 'mail', '--payload-file', 'p.json'], { io: { cwd } });
    expect(file.calls).toMatchObject([['plugin.run', { payload: { from: 'file' } }]]);
    const stdin = (async function* () {
      yield Buffer.from('{"from":');
      yield Buffer.from('"stdin"}');
    })();
    const piped = await run(['plugin', 'run', 'mail', '--payload-file', '-'], { io: { stdin } });
    expect(piped.calls).toMatchObject([['plugin.run', { payload: { from: 'stdin' } }]]);
  });

  test("an input that isn't UTF-8 is refused, and not changed on its way", async () => {
    const cwd = await makeDirectory();
    const latin = Buffer.from('{"name":"Zo\u00eb"}', 'latin1');
    writeFileSync(join(cwd, 'p.json'), latin);
    for (const argv of [
      ['plugin', 'run', 'mail', '--payload-file', 'p.json'],
      ['plugin', 'run', 'mail', '--payload-file', '-'],
      ['credential', 'set', 'key'],
      ['api', '/plugin/mail/poll', '--body', '@p.json'],
      ['api', '/plugin/mail/poll', '--body', '@-'],
    ]) {
      const stdin = (async function* () {
        yield await Promise.resolve(latin);
      })();
      const { code, calls, err } = await run(argv, { io: { cwd, stdin } });
      expect([code, calls]).toEqual([2, []]);
      expect(err).toContain('it is not UTF-8 text');
    }
  });

  test('the named configuration is used to find the service', async () => {
    const { hostCalls } = await run(['job', 'list', '--config', '/etc/d']);
    expect(hostCalls).toEqual([
      ['findSocket', '/etc/d'],
      ['openLocal', '/etc/d', 'ledger'],
      ['close'],
    ]);
  });

  test('the running server is called, and nothing is opened beside it', async () => {
    const path = join(await makeDirectory(), 's.sock');
    const server = createServer(({ method, url }, response) => {
      response.end(JSON.stringify({ jobs: [{ ...job, plugin: `${method} ${url}` }] }));
    }).listen(path);
    await once(server, 'listening');
    const { out, hostCalls, code } = await run(['job', 'list', '-n', '2'], {
      host: { findSocket: () => Promise.resolve({ socketPath: path }) },
    });
    server.close();
    expect(out).toContain('GET /jobs?limit=2');
    expect([code, hostCalls]).toEqual([0, []]);
  });

  test('a service with another configuration is warned of, as text and as JSON', async () => {
    const path = join(await makeDirectory(), 's.sock');
    const server = createServer((_, response) => {
      response.end(JSON.stringify({ jobs: [] }));
    }).listen(path);
    await once(server, 'listening');
    const otherConfig = { asked: '/etc/a.yaml', used: '/etc/b.yaml' };
    const host = { findSocket: () => Promise.resolve({ socketPath: path, otherConfig }) };
    const warning = 'the running service uses the configuration /etc/b.yaml, not /etc/a.yaml';
    const asText = await run(['job', 'list'], { host });
    const asJson = await run(['job', 'list', '--json'], { host });
    server.close();
    expect([asText.code, asText.err]).toEqual([0, `warning: ${warning}\n`]);
    expect(JSON.parse(asJson.err)).toEqual({ warning, ...otherConfig });
    expect(JSON.parse(asJson.out)).toEqual({ jobs: [] });
  });

  test('an opened connection is closed although the call fails', async () => {
    const { hostCalls } = await run(['job', 'list'], { answer: new Error('boom') });
    expect(hostCalls).toContainEqual(['close']);
  });
});

describe('older spellings', () => {
  test.each<[string, string, unknown]>([
    ['job inspect 0199', 'job.inspect', { id: '0199' }],
    ['--config x job inspect 0199', 'job.inspect', { id: '0199' }],
    ['plugin inspect mail', 'plugin.inspect', { plugin: 'mail' }],
    ['directive inspect 0199', 'directive.show', { id: '0199' }],
    ['plugin new mail --lang sh', 'plugin.new', { plugin: 'mail', lang: 'sh' }],
    ['webhook add x --title X', 'webhook.add', { id: 'x', title: 'X' }],
    ['webhook remove x --dry-run', 'webhook.remove', { id: 'x', dry_run: true }],
    ['system breaker', 'system.breaker', {}],
    [
      'system breaker mail --command poll --json',
      'system.breaker',
      { plugin: 'mail', command: 'poll' },
    ],
    ['system reset mail', 'system.reset', { plugin: 'mail' }],
    ['config view --json', 'config.view', {}],
  ])('ductile %s works, without a note', async (line, name, input) => {
    const { calls, err } = await run(line.split(' '));
    expect([calls, err]).toEqual([[[name, input]], '']);
  });

  test('are hidden from help, and their own help shows the documented command', async () => {
    for (const { noun, olderSpellings } of commands) {
      for (const spelling of olderSpellings) {
        const [first = '', second = ''] = spelling.split(' ');
        const { out } = await run([first, '--help']);
        expect([spelling, out]).toEqual([spelling, expect.not.stringContaining(`\n  ${second} `)]);
        const own = await run([first, second, '--help']);
        expect(own.out).toMatch(`Usage: ductile ${noun} `);
        expect(own.out).not.toContain(`ductile ${spelling}`);
      }
    }
  });

  test('a suggestion names only documented actions', async () => {
    const { err } = await run(['job', 'inspec', '0199']);
    expect(err).toContain("unknown command 'inspec'");
    expect(err).not.toContain('inspect?');
  });
});

describe('commands of the program itself', () => {
  test('start, demo and restore', async () => {
    const start = await run(['system', 'start', '--config', 'dir'], {
      host: { start: (config) => Promise.resolve(config === 'dir' ? 3 : 4) },
    });
    expect(start.code).toBe(3);
    const demo = await run(['demo', '--rounds', '2']);
    expect(demo.hostCalls).toMatchObject([['demo', { rounds: 2 }]]);
    const restore = await run(['system', 'restore', '--from', 'copy.db', '--config', 'dir']);
    expect(restore.hostCalls).toEqual([['restore', 'dir', '/somewhere/copy.db', false]]);
    expect(restore.out).toContain('restored from  x');
    expect((await run(['system', 'restore'])).code).toBe(2);
  });

  test('version, in each of its forms', async () => {
    const { out } = await run(['--version']);
    expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await run(['-V'])).out).toBe(out);
    expect((await run(['version'])).out).toBe(`ductile ${out}`);
    expect(JSON.parse((await run(['version', '--json'])).out)).toEqual({ version: out.trim() });
  });
});

describe('help', () => {
  test('lists every noun once, in groups, and the short forms behind them', async () => {
    const { out, code } = await run(['--help']);
    expect(code).toBe(0);
    const [nouns = '', short = ''] = out.split('Short forms:');
    const everyday = /Everyday:\n((?: {2}.*\n)+)/.exec(nouns)?.[1] ?? '';
    expect([...everyday.matchAll(/^ {2}(\w+)/gm)].slice(0, 10).map(([, name]) => name)).toEqual(
      'init status logs why doctor job run plugin pipeline schedule'.split(' '),
    );
    const isListed = (name: string) => nouns.match(new RegExp(`^ {2}${name} `, 'gm'))?.length;
    for (const { noun } of commands) expect([noun, isListed(noun)]).toEqual([noun, 1]);
    expect(nouns).not.toMatch(/\n {2}plugins /);
    // Both a noun and a short form, and in each place what it is there.
    expect(nouns.match(/\n {2}run .*/g)).toEqual([
      expect.stringMatching(/Executions of pipelines/),
    ]);
    expect(short.match(/\n {2}run .*/g)).toEqual([expect.stringMatching(/plugin/)]);
    for (const name of ['status', 'run', 'doctor']) expect(short).toMatch(`\n  ${name} `);
  });

  test('has every command and every action in exactly one group', async () => {
    const session = { host: {}, io: {}, argv: [], exitCode: 0 } as unknown as CliSession;
    const words = commands.flatMap(({ noun, action }) => [noun, action]);
    const program = makeProgram(session, words);
    const names = (command: Command): string[] =>
      command
        .createHelp()
        .visibleCommands(command)
        .map((one) => one.name());
    const shortForms = commands.flatMap(({ alias }) => alias?.name ?? []);
    const grouped = Object.values(commandGroups).flat();
    expect(grouped).toHaveLength(new Set(grouped).size);
    expect(grouped).toEqual(expect.arrayContaining(names(program)));
    expect([...names(program), ...shortForms]).toEqual(expect.arrayContaining(grouped));
    for (const [noun, groups = {}] of Object.entries(actionGroups)) {
      const parent = program.commands.find((one) => one.name() === noun) ?? program;
      const actions = names(parent).filter((name) => name !== 'help');
      expect(Object.values(groups).flat().toSorted()).toEqual(actions.toSorted());
    }
  });

  test('for doctor names the commands that check one part', async () => {
    const { out } = await run(['doctor', '--help']);
    for (const part of doctorParts) {
      expect(out).toContain(`\n  ${part} `);
      expect(commands.some(({ noun, action }) => part === `${noun} ${action}`)).toBe(true);
    }
    const answer = { findings: [], errors: 0, warnings: 0, infos: 0 };
    expect((await run(['doctor'], { answer })).out).toBe('Nothing is wrong.\n');
    const shown = await run(['doctor'], { answer, io: { isTTY: true } });
    expect(shown.out).toMatch(/^Nothing is wrong\.\nChecks of one part: `config check`, .*\n$/);
  });

  test.each(operations.filter(({ cli }) => isOffered(cli)).map(({ name }) => name))(
    'for %s has its summary, examples and the common flags',
    async (name) => {
      const { out, code } = await run([...name.split('.'), '--help']);
      const operation = operations.find((candidate) => candidate.name === name);
      expect(code).toBe(0);
      // A command that a flag selects is described as that flag.
      const described = out.replaceAll(/\s+/g, ' ').toLowerCase();
      expect(described).toContain(operation?.summary.toLowerCase().slice(0, -1));
      for (const part of ['Examples:', '--json', '--verbose', '--config'])
        expect(out).toContain(part);
      expect(out.includes('--dry-run')).toBe(operation?.effect !== 'read');
    },
  );

  test('the name alone invites, a noun alone explains itself with exit 1', async () => {
    const { code, out, err } = await run([]);
    expect([code, err]).toEqual([0, '']);
    for (const first of ['ductile demo', 'ductile init', 'ductile --help']) {
      expect(out).toContain(first);
    }
    expect(await run(['job'])).toMatchObject({ code: 1, err: expect.stringContaining('show') });
  });
});

describe('mistakes', () => {
  test.each([
    [['job', 'lst'], "unknown command 'lst'", 'Did you mean list?'],
    [['webhook', 'shwo', 'x'], "unknown command 'shwo'", 'Did you mean show?'],
    [['webhook', 'creat', 'x', '--title', 'X'], "unknown command 'creat'", 'Did you mean create?'],
    [['config', 'show', 'api', '--active'], '--active and path cannot be combined', 'Leave out'],
    [['run', 'shwo', 'x'], "unknown command 'shwo'", 'Did you mean show?'],
    [['run', 'echo', 'x'], 'too many arguments', 'run --help'],
    [
      ['webhook', 'create', 'x', '--titel', 'X'],
      "unknown option '--titel'",
      'Did you mean --title?',
    ],
    [
      ['why', 'x', '--kind', 'nonsense'],
      'kind must be job, run, schedule',
      'The choices are job, run',
    ],
    [['jib'], "unknown command 'jib'", 'Did you mean job?'],
    [['job', 'list', '--limt', '3'], "unknown option '--limt'", 'Did you mean --limit?'],
    [['job', 'show'], "missing required argument 'id'", 'ductile job show --help'],
    [['system', 'backup'], "required option '--to <file>' not specified", 'system backup --help'],
    [['job', 'list', 'extra'], 'too many arguments', 'job list --help'],
    [['--config', 'x', 'job', 'show'], 'missing required argument', 'ductile job show --help'],
    [['plugin', 'run', 'mail', '--payload', '{a:1}'], 'payload is not JSON', 'Write an object'],
    [
      ['plugin', 'run', 'mail', '--payload', `{"id":${'9'.repeat(1001)}}`],
      'payload has a number at $.id with too many characters',
      'Write an object',
    ],
    [
      ['plugin', 'run', 'mail', '--payload', '{"a":1,"a":2}'],
      'payload has a key twice in one object',
      'Write an object',
    ],
    [
      ['plugin', 'run', 'mail', '--payload', '@p.json'],
      'payload is not JSON',
      'use --payload-file p.json',
    ],
    [
      ['plugin', 'run', 'mail', '--payload-file', 'none.json'],
      'payload cannot be read',
      'can be read',
    ],
    [
      ['plugin', 'run', 'mail', '--payload', '{}', '--payload-file', '-'],
      'payload is given twice',
      'Keep one',
    ],
  ])('%j', async (argv, message, hint) => {
    const { code, err, out, calls } = await run(argv);
    expect([code, out, calls]).toEqual([2, '', []]);
    expect(err).toContain(`error: ${message}`);
    expect(err).toContain(hint);
    const asJson = await run([...argv, '--json']);
    expect(JSON.parse(asJson.err)).toMatchObject({ code: 'INPUT_INVALID' });
    expect(asJson.code).toBe(2);
  });
});
