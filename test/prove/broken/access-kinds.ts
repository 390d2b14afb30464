/** Requests, deliveries and packages that are refused or never arrive. */
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { shell, succeeds } from '../../support/plugin-program.ts';
import { pluginsRoot } from '../../support/plugin-process.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';
import { once } from './plugin-kinds.ts';

const CI = 'token-of-ci-0123456789abcdef';
const OWNER = 'token-of-owner-0123456789abcdef';
const api = {
  enabled: true,
  listen: '127.0.0.1:0',
  auth: {
    tokens: [
      { name: 'owner', token: OWNER, scopes: ['*'] },
      { name: 'ci', token: CI, scopes: ['jobs:ro'] },
    ],
  },
};

async function callAsCi(installation: Installation): Promise<number> {
  const response = await fetch(`${installation.api}/plugin/mail/poll`, {
    method: 'POST',
    headers: { authorization: `Bearer ${CI}`, 'content-type': 'application/json' },
    body: '{}',
  });
  await response.text();
  return response.status;
}

export const missingScope: Breakage = {
  name: 'a token without the scope it needs',
  setup: { api, plugins: { mail: { program: succeeds } } },
  async break(installation) {
    const status = await callAsCi(installation);
    if (status !== 403) throw new Error(`the call came to ${status}`);
    return {
      async works() {
        const after = await callAsCi(installation);
        if (after >= 300) throw new Error(`the call came to ${after}`);
      },
    };
  },
  finding: {
    id: /^call_refused:/,
    message: /token ci .*mail:rw/,
    evidence: /plugin\.run|mail/,
    fix: /mail:rw/,
    command: /mail:rw/,
  },
};

const SECRET = 'a-secret-that-senders-know';

async function deliver(installation: Installation, secret: string): Promise<number> {
  const response = await fetch(`${installation.api}/hooks/deploys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: '{}',
  });
  await response.text();
  return response.status;
}

/** Adds a webhook for the plugin, and returns its secret. */
async function addWebhook({ client }: Installation): Promise<string> {
  const hook = {
    title: 'Deploys',
    id: 'deploys',
    plugin: 'mail',
    auth_mode: 'bearer',
    secret: SECRET,
  };
  const { status, body } = await client.post('/webhooks', hook);
  if (status >= 300) throw new Error(`the webhook came to ${status} ${JSON.stringify(body)}`);
  return SECRET;
}

export const webhookWithoutTarget: Breakage = {
  name: 'a webhook whose target is gone',
  setup: { api, plugins: { mail: { program: succeeds } } },
  async break(installation) {
    const secret = await addWebhook(installation);
    const directory = installation.path('plugins/mail');
    await rename(directory, installation.path('mail'));
    await installation.edit(({ plugins }) => delete plugins['mail']);
    installation.lock();
    await installation.client.post('/system/reload');
    const refused = await deliver(installation, secret);
    if (refused < 400) throw new Error(`the delivery came to ${refused}`);
    return {
      async byHand() {
        await rename(installation.path('mail'), directory).catch(() => 'it is back');
        installation.lock();
      },
      async works() {
        const after = await deliver(installation, secret);
        if (after >= 300) throw new Error(`the delivery came to ${after}`);
      },
    };
  },
  finding: {
    id: /^webhook_stranded:deploys/,
    message: /^The webhook deploys refuses every delivery: there is no plugin mail/,
    evidence: /deploys/,
    fix: /target/,
    command: /^ductile system reload/,
  },
};

export const webhookWithoutSecret: Breakage = {
  name: 'a webhook whose secret is missing',
  setup: {
    plugins: { mail: { program: succeeds } },
    webhooks: { listen: '127.0.0.1:0' },
  },
  async start(installation) {
    await installation.start();
    await installation.client.post('/credentials', { name: 'deploy-secret', value: SECRET });
    await installation.edit((config) => {
      const endpoint = { path: '/deploy', plugin: 'mail', secret_ref: 'deploy-secret' };
      config['webhooks'] = {
        listen: '127.0.0.1:0',
        endpoints: [{ ...endpoint, signature_header: 'X-Signature' }],
      };
    });
    installation.lock();
    const { status, body } = await installation.client.post('/system/reload');
    if (status !== 200) throw new Error(`the reload came to ${status} ${JSON.stringify(body)}`);
  },
  async break(installation) {
    await installation.client.post('/credentials/deploy-secret/delete');
    const refused = await sendSigned(installation);
    if (refused < 400) throw new Error(`the delivery came to ${refused}`);
    return {
      input: () => SECRET,
      async works() {
        const after = await sendSigned(installation);
        if (after >= 300) throw new Error(`the delivery came to ${after}`);
      },
    };
  },
  finding: {
    id: /^credential_missing:deploy-secret|^webhooks:/,
    message: /deploy-secret/,
    evidence: /no credential|config/,
    fix: /credential set/,
    command: /^ductile credential set deploy-secret/,
  },
};

async function sendSigned(installation: Installation): Promise<number> {
  const { createHmac } = await import('node:crypto');
  const body = '{}';
  const signature = createHmac('sha256', SECRET).update(body).digest('hex');
  const response = await fetch(`${installation.webhooks}/deploy`, {
    method: 'POST',
    headers: { 'x-signature': `sha256=${signature}`, 'content-type': 'application/json' },
    body,
  });
  await response.text();
  return response.status;
}

export const missingKey: Breakage = {
  name: 'a restore without its credential key',
  setup: {
    plugins: {
      mail: {
        program: shell(`read request
case "$request" in *hunter22*) echo '{"status":"ok","result":"done"}';;
*) echo '{"status":"error","error":"no password"}';; esac`),
        settings: { ...once, config: { password: 'credential:mail-password' } },
      },
    },
  },
  async start(installation) {
    await installation.start();
    const { client } = installation;
    await client.post('/credentials', { name: 'mail-password', value: 'hunter22' });
    await installation.jobIs(await installation.submit('mail'), 'succeeded');
  },
  async break(installation) {
    const key = `${dirname(installation.control)}/credential.key`;
    const safe = installation.path('kept-elsewhere');
    if (installation.database === 'sqlite') {
      const to = installation.path('backup.db');
      await installation.client.post('/system/backup', { to });
      await installation.stop();
      await rename(key, safe);
      await rm(installation.path('state'), { recursive: true });
      await installation.ductile(`system restore --from ${to}`);
    } else {
      await installation.stop();
      await rename(key, safe);
    }
    await installation.start();
    const id = await installation.submit('mail');
    return {
      adapt: (command) => command.replace('BACKUP/credential.key', safe),
      async works() {
        // Without a restore the service isn't paused, so the job dies before the key is back and is retried.
        const { body } = await installation.client.get(`/job/${id}`);
        const retried = body['retried_as'];
        await installation.jobIs(typeof retried === 'string' ? retried : id, 'succeeded');
      },
    };
  },
  finding: {
    id: /^credential_key_missing:/,
    message: /key \S+ is missing/,
    evidence: /credential mail-password/,
    fix: /credential\.key/,
    command: /^cp \S+\/credential\.key \S+\/credential\.key/,
  },
};

export const unmatchedWatch: Breakage = {
  name: 'an installation whose watch never matches',
  setup: { plugins: { mail: { program: succeeds } } },
  async start(installation) {
    await installation.edit((config) => (config['plugin_roots'] = ['./plugins', pluginsRoot]));
    installation.lock();
    const { mkdir } = await import('node:fs/promises');
    await mkdir(installation.path('inbox'));
    await installation.start();
  },
  async break(installation) {
    const config = { folder: installation.path('inbox'), pattern: '*.PDF', every: '1s' };
    const { status, body } = await installation.client.post('/packages/folder-notify/install', {
      config: { ...config, file: installation.path('told') },
    });
    if (status >= 300) throw new Error(`the package came to ${status} ${JSON.stringify(body)}`);
    await installation.put('inbox/one.pdf', 'x');
    await installation.jobsAre('folder_notify_watch', 'succeeded', 12);
    return {
      adapt: (command) => command.replace('*.PDF', '*.pdf'),
      async works() {
        await installation.put('inbox/two.pdf', 'x');
        await installation.jobsAre('folder_notify_tell', 'succeeded', 1);
      },
    };
  },
  finding: {
    id: /folder.notify/,
    message: /folder.notify/,
    evidence: /\*\.PDF/,
    fix: /--with/,
    command: /^ductile package upgrade folder-notify/,
  },
};
