/**
 * Work that doesn't continue: halted runs, pending approvals, dead and hanging jobs, and keys that
 * are held.
 */
import { rm } from 'node:fs/promises';
import { eventually } from '../../support/instance.ts';
import { shell, succeeds } from '../../support/plugin-program.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';
import { failsInTrouble, once } from './plugin-kinds.ts';

/** Takes an hour while a file called `trouble` is in the installation, else no time at all. */
export const hangsInTrouble = shell(`cat > /dev/null
if [ -e ../../trouble ]; then touch ../../hanging; exec sleep 3600; fi
echo '{"status":"ok","result":"done"}'`);

/** Gives the commands a history of durations. */
const USUAL_RUNS = 6;

async function makeUsual(installation: Installation, plugin: string): Promise<void> {
  for (let run = 0; run < USUAL_RUNS; run += 1) {
    await installation.jobIs(await installation.submit(plugin), 'succeeded');
  }
}

export const haltedRuns: Breakage = {
  name: 'halted runs',
  setup: {
    plugins: { mail: { program: failsInTrouble, settings: once } },
    pipelines: [{ name: 'digest', steps: [{ id: 'send', uses: 'mail.poll' }] }],
  },
  async break(installation) {
    await installation.put('trouble');
    const id = await installation.startRun('digest');
    await installation.runIs(id, 'halted');
    return {
      byHand: () => rm(installation.path('trouble'), { force: true }),
      works: async () => {
        await eventually('a run has succeeded', async () => {
          const { body } = await installation.client.get('/runs?status=succeeded');
          return (body['runs'] as unknown[]).length > 0;
        });
      },
    };
  },
  finding: {
    id: /^run_halted:digest/,
    message: /run of .*digest/,
    evidence: /halted at send.*the mailbox is away/,
    fix: /revive/,
    command: /^ductile run revive /,
  },
};

export const unseenApproval: Breakage = {
  name: 'an approval that nobody saw',
  setup: {
    plugins: { mail: { program: succeeds } },
    pipelines: [
      { name: 'publish', steps: [{ id: 'ask', approve: 'Publish it?' }, { uses: 'mail.poll' }] },
    ],
  },
  async break(installation) {
    const id = await installation.startRun('publish');
    await installation.runIs(id, 'running', 'waiting');
    return { works: async () => void (await installation.runIs(id, 'succeeded')) };
  },
  finding: {
    id: /^approval_waiting:publish/,
    message: /publish/,
    evidence: /Publish it\?/,
    fix: /[Aa]pprove/,
    command: /^ductile run approve \S+ ask/,
  },
};

export const deadJobs: Breakage = {
  name: 'dead jobs',
  setup: { plugins: { mail: { program: failsInTrouble, settings: once } } },
  async break(installation) {
    await installation.put('trouble');
    for (const id of [await installation.submit('mail'), await installation.submit('mail')]) {
      await installation.jobIs(id, 'dead', 'failed');
    }
    return {
      byHand: () => rm(installation.path('trouble'), { force: true }),
      works: async () => void (await installation.jobsAre('mail', 'succeeded', 2)),
    };
  },
  finding: {
    id: /^job_dead:mail/,
    message: /2 jobs.*mail/,
    evidence: /the mailbox is away/,
    fix: /retry/,
    command: /^ductile jobs? retry /,
  },
};

export const hangingJob: Breakage = {
  name: 'a hanging job that holds the only worker',
  setup: {
    service: { max_workers: 1 },
    plugins: {
      mail: { program: succeeds },
      slow: { program: hangsInTrouble, settings: { ...once, timeouts: { poll: '2h' } } },
    },
  },
  async break(installation) {
    await makeUsual(installation, 'slow');
    await installation.put('trouble');
    await installation.jobIs(await installation.submit('slow'), 'running');
    const waiting = await installation.submit('mail');
    return { works: async () => void (await installation.jobIs(waiting, 'succeeded')) };
  },
  finding: {
    id: /^job_overlong:/,
    message: /slow/,
    evidence: /95 % of the last \d+ attempts: at most/,
    fix: /[Cc]ancel/,
    command: /^ductile job cancel /,
  },
};

export const heldKey: Breakage = {
  name: 'a dependency key that is held far longer than usual',
  setup: {
    plugins: {
      mail: { program: succeeds },
      slow: { program: hangsInTrouble, settings: { ...once, timeouts: { poll: '2h' } } },
    },
  },
  async break(installation) {
    await makeUsual(installation, 'slow');
    await installation.put('trouble');
    const dependency = 'database';
    await installation.jobIs(await installation.submit('slow', { dependency }), 'running');
    const waiting = await installation.submit('mail', { dependency });
    return { works: async () => void (await installation.jobIs(waiting, 'succeeded')) };
  },
  finding: {
    id: /^job_overlong:/,
    message: /slow poll has held the dependency key database/,
    evidence: /95 % of the last \d+ attempts: at most/,
    fix: /[Cc]ancel/,
    command: /^ductile job cancel /,
  },
};

/** Emits the item that is in the file `item`, with this key. */
const emits = (key: string): string =>
  shell(`cat > /dev/null
item=$(cat ../../item)
event='{"type":"feed.item","payload":{"item":"'$item'"},"dedupe_key":"${key}"}'
echo '{"status":"ok","result":"done","events":['"$event"']}'`);

/** The key names the day and not the item, so only the first item of a day is handled. */
export const wideDedupeKey: Breakage = {
  name: 'a dedupe key that is too wide',
  setup: {
    plugins: { feed: { program: emits('2026-11-18') }, mail: { program: succeeds } },
    routes: [{ from: 'feed', event_type: 'feed.item', to: 'mail' }],
  },
  async start(installation) {
    await installation.put('item', '1');
    await installation.start();
    await installation.jobIs(await installation.submit('feed'), 'succeeded');
    await installation.jobsAre('mail', 'succeeded', 1);
  },
  async break(installation) {
    for (const item of ['2', '3', '4', '5']) {
      await installation.put('item', item);
      await installation.jobIs(await installation.submit('feed'), 'succeeded');
    }
    return {
      async byHand() {
        const { writeFile } = await import('node:fs/promises');
        await writeFile(installation.path('plugins/feed/run'), emits("'$item'"));
      },
      async works() {
        await installation.put('item', '6');
        await installation.jobIs(await installation.submit('feed'), 'succeeded');
        await installation.jobsAre('mail', 'succeeded', 2);
      },
    };
  },
  finding: {
    id: /^work_suppressed:/,
    message: /2026-11-18/,
    evidence: /holds the key/,
    fix: /key/,
    command: /^ductile /,
  },
};
