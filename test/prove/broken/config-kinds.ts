/** Configurations that are invalid, outdated, or belong to another user. */
import { readFile, writeFile } from 'node:fs/promises';
import { shell, succeeds } from '../../support/plugin-program.ts';
import { launch } from '../../support/crash/server.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';

async function replaceInConfig(
  installation: Installation,
  before: string,
  after: string,
): Promise<void> {
  const file = installation.path('config.yaml');
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace(before, after));
}

export const typo: Breakage = {
  name: 'a typo that blocks a reload',
  setup: { plugins: { mail: { program: succeeds } } },
  async break(installation) {
    await replaceInConfig(installation, '"max_workers":4', '"max_worker":3');
    const { status } = await installation.client.post('/system/reload');
    if (status !== 409) throw new Error(`the reload came to ${status}`);
    return {
      byHand: () => replaceInConfig(installation, '"max_worker":3', '"max_workers":3'),
      async works() {
        const { status: reloaded } = await installation.client.post('/system/reload');
        if (reloaded !== 200) throw new Error(`the reload came to ${reloaded}`);
      },
    };
  },
  finding: {
    id: /max_worker/,
    message: /not a known key/,
    evidence: /config\.yaml:\d+:\d+|reload.*refused/,
    fix: /max_workers/,
    command: /^ductile config check/,
  },
};

export const changedOnDisk: Breakage = {
  name: 'a configuration on disk that differs from the active one',
  setup: { plugins: { mail: { program: succeeds } } },
  async break(installation) {
    await installation.edit(({ service }) => (service['max_workers'] = 2));
    return {
      async works() {
        const { body } = await installation.client.get('/system/status');
        if (
          !JSON.stringify(body).includes('"workers":2') &&
          !/"(slots|max_workers)":2/.test(JSON.stringify(body))
        )
          throw new Error(`workers: ${JSON.stringify(body)}`);
      },
    };
  },
  finding: {
    id: /^config_changed:/,
    message: /differs|changed|not active/,
    evidence: /service\.max_workers/,
    fix: /reload/,
    command: /^ductile (system )?reload/,
  },
};

/** Responds to each event with one of this type. */
const echoes = (type: string): string =>
  shell(`cat > /dev/null
echo '{"status":"ok","result":"done","events":[{"type":"${type}","payload":{}}]}'`);

export const routeLoop: Breakage = {
  name: 'routes in a circle',
  setup: {
    plugins: { feed: { program: echoes('feed.item') }, mail: { program: echoes('mail.sent') } },
    routes: [{ from: 'feed', event_type: 'feed.item', to: 'mail' }],
  },
  async break(installation) {
    await installation.edit(({ routes }) => {
      routes.push({ from: 'mail', event_type: 'mail.sent', to: 'feed' });
    });
    installation.lock();
    const { status } = await installation.client.post('/system/reload');
    if (status !== 200) throw new Error(`the reload came to ${status}`);
    await installation.submit('feed');
    await installation.jobsAre('mail', 'succeeded', 10);
    return {
      async works() {
        const id = await installation.submit('feed');
        await installation.jobIs(id, 'succeeded');
      },
    };
  },
  finding: {
    id: /^routes:/,
    message: /feed.*mail|mail.*feed/,
    evidence: /config\.yaml/,
    fix: /route/,
    command: /^ductile config unset routes.*reload/,
  },
};

export const foreignLock: Breakage = {
  name: 'a lock held by an old process with another configuration',
  databases: ['sqlite'],
  isUnexplained: true,
  setup: { plugins: { mail: { program: succeeds } } },
  async break(installation) {
    await installation.stop();
    const text = await readFile(installation.path('config.yaml'), 'utf8');
    const old = installation.path('old.yaml');
    await writeFile(old, text.replace('"max_workers":4', '"max_workers":3'), { mode: 0o600 });
    const other = launch(installation.directory, '', {}, { config: old });
    await other.ready;
    return {
      async works() {
        await other.exited;
        await installation.start();
        await installation.jobIs(await installation.submit('mail'), 'succeeded');
      },
    };
  },
  finding: {
    id: /^lock_held:/,
    message: /[Pp]rocess \d+ holds .*old\.yaml/,
    evidence: /old\.yaml/,
    fix: /[Ss]top|end/,
    command: /^kill \d+|^ductile system stop/,
  },
};
