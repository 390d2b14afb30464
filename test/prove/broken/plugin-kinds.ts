/** Plugins without something that they need: their x bit, a variable, a working setup. */
import { chmod, rm } from 'node:fs/promises';
import { eventually } from '../../support/instance.ts';
import { shell, succeeds } from '../../support/plugin-program.ts';
import type { Breakage } from './breakage.ts';

/** Fails while a file called `trouble` is in the installation. */
export const failsInTrouble = shell(`cat > /dev/null
if [ -e ../../trouble ]; then echo '{"status":"error","error":"the mailbox is away"}'
else echo '{"status":"ok","result":"done"}'; fi`);

/** A single failure is final. */
export const once = { retry: { max_attempts: 1 } };

export const lostExecuteBit: Breakage = {
  name: 'a plugin lost its x bit',
  setup: { plugins: { mail: { program: succeeds, settings: once } } },
  async break(installation) {
    const program = installation.path('plugins/mail/run');
    await chmod(program, 0o644);
    const id = await installation.submit('mail');
    await installation.jobIs(id, 'dead', 'failed');
    return {
      async works() {
        await installation.jobIs(await installation.submit('mail'), 'succeeded');
      },
    };
  },
  finding: {
    id: /^plugins:.*mail/,
    message: /mail/,
    evidence: /mail\/manifest\.yaml/,
    fix: /chmod/,
    command: /^chmod \+x \S+\/plugins\/mail\/run/,
  },
};

export const notExecutableAtStart: Breakage = {
  name: 'a plugin had lost its x bit when the service started',
  setup: { plugins: { mail: { program: succeeds, settings: once } } },
  async break(installation) {
    await chmod(installation.path('plugins/mail/run'), 0o644);
    const id = await installation.submit('mail', { delay: '1s' });
    await installation.stop();
    await installation.start();
    await eventually('the service reports it', async () => {
      const { body } = await installation.client.get('/incidents');
      return JSON.stringify(body).includes('plugin_not_loaded');
    });
    return { works: async () => void (await installation.jobIs(id, 'succeeded')) };
  },
  finding: {
    id: /^(plugins:.*mail|plugin_not_loaded:mail)/,
    message: /mail/,
    evidence: /mail/,
    fix: /chmod|Fix what the evidence names/,
    command: /^chmod \+x \S+\/plugins\/mail\/run/,
  },
};

export const droppedVariable: Breakage = {
  name: 'a variable that the allow-list drops',
  setup: {
    plugins: {
      mail: {
        program: shell(`cat > /dev/null
if [ -z "$MAIL_REGION" ]; then echo '{"status":"error","error":"MAIL_REGION is not set"}'
else echo '{"status":"ok","result":"done"}'; fi`),
        settings: once,
      },
    },
  },
  start: async (installation) => void (await installation.start({ MAIL_REGION: 'eu' })),
  async break(installation) {
    const id = await installation.submit('mail');
    await installation.jobIs(id, 'dead', 'failed');
    return {
      async works() {
        await installation.jobIs(await installation.submit('mail'), 'succeeded');
      },
    };
  },
  finding: {
    id: /^\w*(env|variable)\w*:mail/,
    message: /mail.*MAIL_REGION|MAIL_REGION.*mail/,
    evidence: /error of job \S+ names MAIL_REGION/,
    fix: /plugin_env_passthrough/,
    command: /config set .*plugin_env_passthrough.*MAIL_REGION.*reload/,
  },
};

export const failedSetup: Breakage = {
  name: 'a plugin whose init fails',
  setup: {
    plugins: {
      mail: { program: failsInTrouble, commands: '{poll: {}, handle: {}, init: {}}' },
    },
  },
  async start(installation) {
    await installation.start();
    await installation.jobIs(await installation.submit('mail'), 'succeeded');
    await installation.stop();
    await installation.put('trouble');
  },
  async break(installation) {
    await installation.edit(({ plugins }) => {
      plugins['mail'] = { ...plugins['mail'], config: { region: 'eu' } };
    });
    installation.lock();
    await installation.start();
    const id = await installation.submit('mail');
    return {
      async byHand() {
        await rm(installation.path('trouble'), { force: true });
      },
      works: async () => void (await installation.jobIs(id, 'succeeded')),
    };
  },
  finding: {
    id: /^plugin_not_set_up:mail/,
    message: /mail/,
    evidence: /the mailbox is away/,
    fix: /init/,
    command: /^ductile plugin init mail/,
  },
};
