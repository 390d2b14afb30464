/** Webhooks on the command line: secrets of senders, agents, and tests without a running service. */
import { noRules } from '../../src/ledger/rules.ts';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { readControlKey } from '../../src/http/control-socket.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { OWNER, startApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { run } from '../support/fake-cli.ts';
import { succeeds } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';
import { dumpLedger, findLeaks } from '../support/leak-search.ts';

const secret = 'whsec-of-the-sender-0123456789';

async function* typed(text: string): AsyncGenerator<string> {
  yield await Promise.resolve(text);
}

const answer = { id: 'a', path: '/hooks/a', secret: null, global_token: null, directive_id: 'd' };

describe('`webhook create`', () => {
  const argv = ['webhook', 'create', 'a', '--title', 'A', '--signal', 'a.b'];
  const entry = { id: 'a', title: 'A', signal: 'a.b' };

  test('reads a secret from standard input only if it is piped', async () => {
    const io = { stdin: typed(`${secret}\n`) };
    const brought = await run([...argv, '--secret-stdin'], { answer, io });
    expect(brought.calls).toEqual([['webhook.add', { ...entry, secret }]]);
    expect(brought.out + brought.err).not.toContain(secret);
    expect((await run(argv, { answer })).calls).toEqual([['webhook.add', entry]]);
    const shown = await run([...argv, '--secret', secret], { answer });
    expect(shown).toMatchObject({ code: 2, calls: [] });
    expect(shown.err).not.toContain(secret);
  });

  test('says when nothing listens yet for what is delivered to it', async () => {
    const quiet = await run(argv, { answer: { ...answer, url: null } });
    expect(quiet.out).toContain('Nothing listens yet');
    const result = await run(argv, { answer: { ...answer, url: 'http://127.0.0.1:8081/hooks/a' } });
    expect(result.out).not.toContain('Nothing listens');
  });

  test('accepts agent settings, with parameters that have commas in them', async () => {
    const agent = ['--mode', 'cron_task', '--task-folder', 't', '--prompt-template', '{{a}}'];
    const more = ['--quiet-start', '22', '--cli-parameters', '["--allow=a,b","-v"]'];
    const { calls } = await run(['webhook', 'create', 'a', '--title', 'A', ...agent, ...more], {
      answer,
    });
    expect(calls[0]?.[1]).toMatchObject({
      mode: 'cron_task',
      quiet_start: 22,
      cli_parameters: ['--allow=a,b', '-v'],
    });
  });
});

describe('with a server', () => {
  async function openBoth() {
    const api = await startApi({ webhooks: { listen: '127.0.0.1:0' } });
    onTestFinished(() => api.close());
    const socketPath = api.server.surfaces.control;
    const key = readControlKey(socketPath, { stateDir: api.server.instance.config.state.dir });
    const host = { findSocket: () => Promise.resolve({ socketPath, key }) };
    const url = ['--url', `http://127.0.0.1:${api.port}`, '--token', OWNER];
    return {
      api,
      'its socket': (words: readonly string[]) => run([...words, '--json'], { host }),
      'its address': (words: readonly string[]) => run([...words, ...url, '--json']),
    };
  }

  test.each(['its socket', 'its address'] as const)(
    'a dry run over %s changes nothing',
    async (way) => {
      const { [way]: ask, api } = await openBoth();
      await ask(['webhook', 'create', 'gh', '--title', 'Ä', '--plugin', 'echo']);
      const planned = await ask(['webhook', 'delete', 'gh', '--dry-run']);
      expect(JSON.parse(planned.out)).toMatchObject({ dry_run: true });
      expect((await api.ask('/webhooks/gh')).status).toBe(200);
      const removed = await ask(['webhook', 'delete', 'gh']);
      expect(JSON.parse(removed.out)).toMatchObject({ removed: true });
      expect((await api.ask('/webhooks/gh')).status).toBe(404);
    },
  );

  test('`webhook show` shows the effective limits, and that nothing came yet', async () => {
    const { 'its socket': ask, api } = await openBoth();
    await ask(['webhook', 'create', 'gh', '--title', 'T', '--plugin', 'echo']);
    const { body } = await api.ask('/webhooks/gh');
    const { out } = await run(['webhook', 'show', 'gh'], { answer: body });
    expect(out).toMatch(/^command +handle$/m);
    expect(out).toMatch(/^max body bytes +1048576$/m);
    expect(out).toMatch(/^rate limit per minute +600$/m);
    expect(out).toMatch(/^last triggered at +-$/m);
    expect(out).toMatch(/^last error +-$/m);
    expect(out).not.toMatch(/^hmac|^task folder/m);
  });

  test('`webhook edit` lists the removable settings, and that there is nothing to change', async () => {
    const { 'its socket': ask } = await openBoth();
    await ask(['webhook', 'create', 'gh', '--title', 'T', '--plugin', 'echo']);
    const unknown = await ask(['webhook', 'edit', 'gh', '--unset', 'delivery-header,nosuch']);
    expect([unknown.code, unknown.err]).toEqual([2, expect.stringContaining('delivery_header')]);
    const nothing = await ask(['webhook', 'edit', 'gh']);
    expect([nothing.code, nothing.err]).toEqual([2, expect.stringContaining('nothing to change')]);
  });
});

test.each(['add', 'rotate'])(
  '`webhook %s` says that its secret is shown once, and where',
  async (action) => {
    const url = 'https://hooks.example/hooks/a';
    const line = ['webhook', action, 'a', ...(action === 'add' ? ['--title', 'A'] : [])];
    const { out } = await run(line, { answer: { ...answer, url, secret: 'made-for-it' } });
    expect(out).toMatch(/address +https:\/\/hooks\.example\/hooks\/a\n/);
    expect(out).toMatch(/secret +made-for-it\n/);
    expect(out).toContain('Save the secret now. It is not shown again.');
    const brought = await run(line, { answer: { ...answer, url: null } });
    expect(brought.out).toMatch(/address +\/hooks\/a\n/);
    expect(brought.out).not.toContain('shown again');
  },
);

describe('`webhook test` says why it cannot sign', () => {
  const setUp = async () => {
    const directory = await makeDirectory();
    await writePlugin(join(directory, 'plugins', 'echo'), { program: succeeds });
    const state = 'plugin_roots: [./plugins]\nstate: { path: ./data/state.db }\n';
    await writeFile(join(directory, 'config.yaml'), state);
    const ask = (line: string, given = '') =>
      run([...line.split(' '), '--config', directory], {
        host: cliHost,
        io: { stdin: typed(given) },
      });
    const add = 'webhook create deploys --title Deploys --plugin echo --auth-mode github';
    await ask('credential set theirs', secret);
    expect((await ask(`${add} --credential theirs`)).code).toBe(0);
    return ask;
  };

  test('the webhook is disabled, or its secret is gone', async () => {
    const ask = await setUp();
    await ask('webhook edit deploys --enabled=false');
    const off = await ask('webhook test deploys');
    expect([off.code, off.err]).toEqual([2, expect.stringContaining('is disabled')]);
    expect(off.err).toMatch(/`ductile webhook edit deploys --enabled=true --config \S+`/);
    await ask('webhook edit deploys --enabled=true');
    expect((await ask('webhook test deploys')).code).toBe(0);
    expect((await ask('credential delete theirs')).code).toBe(0);
    const bare = await ask('webhook test deploys');
    expect([bare.code, bare.err]).toEqual([2, expect.stringContaining('no secret to sign with')]);
    expect(bare.err).toMatch(/`ductile webhook rotate deploys --config \S+`/);
  });

  test('the webhook does not exist: even a dry run says so and suggests a similar name', async () => {
    const ask = await setUp();
    const lines = ['test deplois --dry-run', 'test deplois', 'show deplois', 'remove deplois'];
    for (const line of lines) {
      const { code, err } = await ask(`webhook ${line}`);
      expect([line, code, err]).toEqual([line, 1, expect.stringContaining('WEBHOOK_NOT_FOUND')]);
      expect(err).toContain('Did you mean deploys?');
    }
    const typo = await ask('webhook create a --title A --plugin ecko');
    expect(typo.err).toContain('Did you mean echo?');
  });
});

describe('without a server', () => {
  test('a secret is sealed, shown nowhere, and a test says that no listener was running', async () => {
    const directory = await makeDirectory();
    await writePlugin(join(directory, 'plugins', 'echo'), { program: succeeds });
    const state = 'plugin_roots: [./plugins]\nstate: { path: ./data/state.db }\n';
    await writeFile(join(directory, 'config.yaml'), state);
    const ask = async (words: string[], given = '') => {
      const result = await run([...words, '--config', directory, '--json'], {
        host: cliHost,
        io: { stdin: typed(given) },
      });
      expect([result.code, result.err]).toEqual([0, '']);
      return result.out;
    };
    const add = ['webhook', 'create', 'pay', '--title', 'Pay', '--plugin', 'echo'];
    const stripe = [...add, '--auth-mode', 'stripe', '--secret-stdin'];
    const planned = await ask([...stripe, '--dry-run'], secret);
    expect(planned).toContain('will be created at /hooks/pay');
    const made = await ask(stripe, secret);
    expect(JSON.parse(made)).toMatchObject({ id: 'pay', secret: null });
    const tested = JSON.parse(await ask(['webhook', 'test', 'pay'])) as object;
    expect(tested).toMatchObject({
      status: 202,
      via: 'in process, because no server listens',
      answer: { accepted: true },
    });
    const other = 'another-one-of-the-sender-987';
    const rotated = await ask(['webhook', 'rotate', 'pay', '--secret-stdin'], other);
    expect(JSON.parse(rotated)).toMatchObject({ secret: null });
    expect(JSON.parse(await ask(['webhook', 'test', 'pay']))).toMatchObject({ status: 202 });
    const directives = await ask(['directive', 'list']);
    const all = [planned, made, rotated, directives, await ask(['webhook', 'show', 'pay'])];
    for (const text of all) expect(text).not.toContain(secret);
    const ledger = await openLedger(
      { kind: 'sqlite', path: join(directory, 'data', 'state.db') },
      noRules,
    );
    const sinks = await dumpLedger(ledger);
    await ledger.close();
    expect(findLeaks(sinks, [secret, other])).toEqual([]);
  });

  test('a static endpoint for a plugin or a command that is not there is found', async () => {
    const directory = await makeDirectory();
    await writePlugin(join(directory, 'plugins', 'echo'), { program: succeeds });
    const endpoint = (path: string, plugin: string): string => `
    - { path: ${path}, ${plugin}, secret_ref: s, signature_header: X-Sig }`;
    const tokens = 'tokens: [{ name: s, key: in-a-file }]';
    const endpoints = [
      endpoint('/a', 'plugin: ecco'),
      endpoint('/b', 'plugin: echo, command: shout'),
      endpoint('/c', 'plugin: echo'),
    ];
    await writeFile(
      join(directory, 'config.yaml'),
      `plugin_roots: [./plugins]\nwebhooks:\n  endpoints:${endpoints.join('')}\n${tokens}\n`,
    );
    const checked = await run(['config', 'check', '--config', directory, '--json'], {
      host: cliHost,
    });
    expect(checked.code).toBe(1);
    const { findings } = JSON.parse(checked.out) as { findings: Record<string, string>[] };
    expect(findings.filter(({ category }) => category === 'webhooks')).toMatchObject([
      {
        severity: 'error',
        key: 'webhooks.endpoints[0].plugin',
        place: expect.stringMatching(/config\.yaml:4:\d+$/),
        fix: expect.stringContaining('echo'),
      },
      { severity: 'error', message: expect.stringContaining('shout') },
    ]);
  });

  test('a static endpoint whose secret is in no file is pointed out', async () => {
    const directory = await makeDirectory();
    await writePlugin(join(directory, 'plugins', 'echo'), { program: succeeds });
    const endpoint = '{ path: /a, plugin: echo, secret_ref: githb, signature_header: X-Sig }';
    await writeFile(
      join(directory, 'config.yaml'),
      `plugin_roots: [./plugins]\nwebhooks: { endpoints: [${endpoint}] }\n`,
    );
    const argv = ['config', 'check', '--config', directory, '--json'];
    const checked = await run(argv, { host: cliHost });
    const { findings } = JSON.parse(checked.out) as { findings: Record<string, string>[] };
    expect(findings.filter(({ category }) => category === 'webhooks')).toMatchObject([
      {
        severity: 'warning',
        key: 'webhooks.endpoints[0].secret_ref',
        message: expect.stringContaining('githb'),
        fix: expect.stringContaining('ductile credential set githb'),
      },
    ]);
  });
});
