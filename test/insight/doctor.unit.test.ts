import { chmod, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config/load.ts';
import { diagnose } from '../../src/insight/diagnose.service.ts';
import { lockConfig, makeConfigTree } from '../support/config-tree.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const NOW = Date.parse('2026-11-15T12:00:00.000Z');

async function find(
  yaml: string,
  more: {
    files?: Readonly<Record<string, string>>;
    locked?: boolean;
    prepare?: (at: string) => Promise<void>;
  } = {},
): Promise<string[]> {
  const directory = await makeConfigTree({
    'config.yaml': `plugin_roots: [plugins]\n${yaml}`,
    ...more.files,
  });
  await chmod(directory, 0o700);
  for (const name of ['echo', 'mail'])
    await writePlugin(join(directory, 'plugins', name), { name });
  if (more.locked !== false) lockConfig(directory);
  await more.prepare?.(directory);
  const all = diagnose(readConfig({ given: directory, env: {} }), NOW);
  // The default number of workers depends on the machine.
  const findings = all.filter(({ key }) => key !== 'service.max_workers' || yaml.includes(key));
  return findings.map(({ severity, place, key, message, hint }) => {
    expect(hint, message).toMatch(/\w/);
    return `${severity} ${place} ${key} ${message}`
      .replaceAll(`${directory}/`, '')
      .replaceAll(directory, '.');
  });
}

test('a sound configuration has nothing to find', async () => {
  expect(await find('plugins: {echo: {schedules: [{every: 5m}]}}\n')).toEqual([]);
});

describe('finds', () => {
  test('all that is invalid, with its place', async () => {
    const found = await find('service: {max_hops: 0, nmae: x}\n', { locked: false });
    expect(found.filter((line) => line.startsWith('error'))).toEqual([
      'error config.yaml:2:11 service.max_hops must be at least 1, not 0',
      'error config.yaml:2:24 service.nmae is not a known key',
    ]);
  });

  test('placeholders that stay empty, where the members of an event are known', async () => {
    const emits =
      'values: {emit: [{event: mail.came, values: [payload.subject, payload.from.name]}]}';
    const yaml = `routes:
  - {event_type: job.dead, to: tell}
  - {event_type: mail.came, from: post, to: tell}
  - {event_type: mail.came, to: tell}
  - {event_type: other.came, from: post, to: tell}
  - {event_type: incident.opened, to: fine}
plugins:
  tell: {config: {text: '{{error}} {{ from.name }} {{detail.message}} {{result}}', other: '{{x}}'}}
  fine: {uses: tell, config: {text: '{{message}} {{next}} {{detail.evidence}}'}}
`;
    const found = await find(yaml, {
      prepare: async (at) => {
        const keys = 'config_keys: {optional: [text, other], templates: [text]}';
        await writePlugin(join(at, 'plugins/tell'), { name: 'tell', extra: keys });
        const commands = `commands: {poll: {${emits}}, handle: {}}`;
        await writePlugin(join(at, 'plugins/post'), { name: 'post', commands });
      },
    });
    const stays = (name: string) => `{{${name}}} in plugins.tell.config.text stays empty`;
    const sends = (type: string) => `sends ${type} to tell, and that event has no`;
    expect(found.filter((line) => line.includes(' routes['))).toEqual([
      ...['from', 'detail', 'result'].map(
        (name) => `warning config.yaml:3:5 routes[0] ${sends('job.dead')} ${name}: ${stays(name)}`,
      ),
      ...['error', 'detail'].map(
        (name) => `warning config.yaml:4:5 routes[1] ${sends('mail.came')} ${name}: ${stays(name)}`,
      ),
    ]);
  });

  test('that nothing is locked, and what changed since', async () => {
    expect(await find('', { locked: false })).toEqual([
      'warning .  the configuration is not locked, so changes by others go unnoticed',
    ]);
    const touched = await find('', {
      prepare: (at) =>
        import('node:fs/promises').then((fs) => fs.appendFile(join(at, 'config.yaml'), '#')),
    });
    expect(touched).toEqual(['warning config.yaml  the file changed after it was locked']);
    const high = await find('include: [tokens.yaml]\n', {
      files: { 'tokens.yaml': 'tokens: [{name: a, key: 0123456789abcdef, scopes: []}]\n' },
      locked: false,
    });
    expect(high[0]).toBe('error tokens.yaml  the file was never locked');
  });

  test('that one slow job can block all others', async () => {
    const found = await find('# service.max_workers\nservice: {max_workers: 1}\n');
    expect(found).toEqual([
      'info config.yaml:3:11 service.max_workers is 1, so one slow job blocks all others until it ends',
    ]);
  });

  test('that quiet hours skip every time of a schedule', async () => {
    const findQuiet = (quiet: string, cron = '0 3 * * *'): Promise<string[]> =>
      find(
        `service: {max_workers: 2, quiet_hours: ${quiet}}
plugins: {echo: {schedules: [{cron: "${cron}", timezone: UTC}]}}
`,
      );
    expect(await findQuiet('{start: 21, end: 8}')).toEqual([
      expect.stringMatching(
        /^warning .* plugins\.echo\.schedules\[0\] \(default\) never fires: all of its times are in quiet hours$/,
      ),
    ]);
    expect(await findQuiet('{start: 21, end: 8}', '0 3 1 * *')).toHaveLength(1);
    expect(await findQuiet('{start: 4, end: 8}')).toEqual([]);
    expect(await findQuiet('{start: 21, end: 8}', '*/5 * * * *')).toEqual([]);
  });

  test('symbolic links, where they are allowed', async () => {
    const found = await find('include: [link.yaml]\nservice: {allow_symlinks: true}\n', {
      files: { 'real.txt': '{}\n' },
      locked: false,
      prepare: (at) => symlink('real.txt', join(at, 'link.yaml')),
    });
    expect(found).toContain('warning config.yaml:2:11 include[0] link.yaml is a symbolic link');
  });

  test('files that others can read or change', async () => {
    const found = await find('environment_vars: {include: [.env]}\n', {
      files: { '.env': 'A=1\n' },
      prepare: async (at) => {
        await chmod(join(at, '.env'), 0o644);
        await chmod(join(at, 'config.yaml'), 0o666);
        await chmod(at, 0o777);
      },
    });
    expect(found).toEqual([
      'warning .  can be changed by other users of this machine',
      'warning .env  can be read by other users of this machine',
      'warning config.yaml  can be changed by other users of this machine',
    ]);
  });

  test('an API that the network can reach, and tokens that can be guessed', async () => {
    const found = await find(
      'api: {enabled: true, listen: "0.0.0.0:8080", allowed_origins: ["*"], auth: {api_key: short}}\n',
    );
    expect(found).toEqual([
      'warning config.yaml:2:22 api.listen is reachable from other machines, over HTTP without TLS',
      'warning config.yaml:2:46 api.allowed_origins allows every web page to call the API',
      'warning config.yaml:2:77 api.auth.api_key is shorter than 16 characters',
    ]);
  });

  test('routes without a target, and routes that go in a circle', async () => {
    const found = await find(`routes:
  - {from: echo, event_type: a, to: mail}
  - {from: mail, event_type: b, to: echo}
  - {event_type: c, to: nobody}
`);
    expect(found).toEqual([
      'error config.yaml:5:5 routes[2].to names nobody, which is not a plugin',
      'warning config.yaml:3:5 routes[0] can form a loop: echo → mail → echo',
    ]);
  });

  test('routes that go in a circle by what the manifests say', async () => {
    const found = await find(
      `routes:
  - {from: ping, event_type: ping.sent, to: pong}
  - {event_type: pong.sent, to: ping}
  - {from: echo, event_type: a, to: mail}
`,
      {
        prepare: async (at) => {
          for (const name of ['ping', 'pong']) {
            const commands = `commands: {handle: {values: {emit: [{event: ${name}.sent}]}}}`;
            await writePlugin(join(at, 'plugins', name), { name, commands });
          }
        },
      },
    );
    expect(found).toEqual([
      'error config.yaml:3:5 routes[0] forms a loop that only service.max_hops ends: ping → pong → ping',
    ]);
  });

  test('a plugin that is switched off and not there', async () => {
    const found = await find('plugins: {mial: {enabled: false}, mail: {enabled: false}}\n');
    expect(found).toEqual([
      'warning config.yaml:2:11 plugins.mial is disabled, and no plugin of that name was found',
    ]);
  });

  test('schedules that cannot do what they say', async () => {
    const found = await find(`plugins:
  echo:
    schedules:
      - {id: one, every: 5m, command: pol}
      - {id: two, at: "2020-01-01T00:00:00Z"}
`);
    expect(found).toEqual([
      'error config.yaml:3:3 plugins.echo.schedules[0] (one) is for the command pol, which the plugin does not have',
      'warning config.yaml:3:3 plugins.echo.schedules[1] (two) is for a time in the past',
    ]);
  });

  test('plugins that are not there, that do not load, or that wait to be set up', async () => {
    expect((await find('plugins: {ehco: {}}\n'))[0]).toBe(
      'error config.yaml:2:11 plugins.ehco is not in any plugin root',
    );
    const found = await find('', {
      prepare: async (at) => {
        await writePlugin(join(at, 'plugins', 'bad'), { manifest: 'name: bad\n' });
        await writePlugin(join(at, 'plugins', 'needy'), {
          name: 'needy',
          extra: 'config_keys: {required: [path]}\n',
        });
      },
    });
    expect(found.at(-1)).toBe('info config.yaml plugins.needy was found and waits to be set up');
    expect(found[0]).toMatch(/^error plugins\/bad\/manifest\.yaml/);
  });
});
