/** Schedules and pauses: work that isn't started although nothing fails. */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { JsonObject } from '../../../src/base/json.ts';
import { eventually } from '../../support/instance.ts';
import { succeeds } from '../../support/plugin-program.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';
import { failsInTrouble, once } from './plugin-kinds.ts';
import { hangsInTrouble } from './work-kinds.ts';

const nightly = { cron: '0 3 * * *', timezone: 'UTC' };

async function findSchedule({ client }: Installation): Promise<JsonObject> {
  const { body } = await client.get('/schedules');
  const [schedule] = body['schedules'] as JsonObject[];
  if (schedule === undefined) throw new Error('there is no schedule');
  return schedule;
}

async function reload({ client }: Installation): Promise<void> {
  const { status, body } = await client.post('/system/reload');
  if (status !== 200) throw new Error(`the reload was refused: ${JSON.stringify(body)}`);
}

/** Waits until the schedule has a next due time, which it lacks while all its times are skipped. */
async function previewFires({ client }: Installation): Promise<void> {
  const from = new Date().toISOString();
  const to = new Date(Date.now() + 3 * 86_400_000).toISOString();
  await eventually('the schedule fires in the preview', async () => {
    const { body } = await client.get(`/schedules/preview?from=${from}&to=${to}`);
    return JSON.stringify(body).includes('"fires":true');
  });
}

export const openBreaker: Breakage = {
  name: 'an open breaker whose cause is gone',
  setup: {
    plugins: {
      feed: { program: failsInTrouble, settings: { ...once, schedules: [{ every: '1s' }] } },
    },
  },
  async break(installation) {
    await installation.put('trouble');
    await eventually('the breaker is open', async () => {
      const { body } = await installation.client.get('/system/breaker/feed');
      return JSON.stringify(body).includes('"state":"open"');
    });
    await rm(installation.path('trouble'));
    const done = (await installation.jobsAre('feed', 'succeeded', 0)).length;
    return {
      works: async () => void (await installation.jobsAre('feed', 'succeeded', done + 1)),
    };
  },
  finding: {
    id: /^breaker_open:feed/,
    message: /feed.*poll/,
    evidence: /3 failures.*the mailbox is away/,
    fix: /[Cc]lose the breaker/,
    command: /^ductile breaker reset feed/,
  },
};

export const neverFires: Breakage = {
  name: 'a schedule that never fires',
  setup: { plugins: { feed: { program: succeeds, settings: { schedules: [nightly] } } } },
  async break(installation) {
    await installation.edit(({ service }) => {
      service['quiet_hours'] = { start: 21, end: 8 };
    });
    installation.lock();
    await reload(installation);
    return { works: () => previewFires(installation) };
  },
  finding: {
    id: /^schedules:plugins\.feed\.schedules\[0\]/,
    message: /never fires/,
    evidence: /config\.yaml/,
    fix: /quiet/,
    command: /^ductile config (un)?set .*quiet.*reload/,
  },
};

/** Each minute another time is skipped because the job of an earlier one hangs. */
export const alwaysSkipped: Breakage = {
  name: 'a schedule that is always skipped',
  setup: {
    plugins: {
      feed: {
        program: hangsInTrouble,
        settings: { ...once, schedules: [{ every: '2s' }], timeouts: { poll: '2h' } },
      },
    },
  },
  async break(installation) {
    await installation.put('trouble');
    // A job that runs now may have started before the breakage.
    await eventually('a job hangs', () => existsSync(installation.path('hanging')));
    await rm(installation.path('trouble'));
    return {
      works: async () => void (await installation.jobsAre('feed', 'succeeded', 1)),
    };
  },
  finding: {
    id: /^schedule_(always_)?skipped:feed/,
    message: /feed.default/,
    evidence: /already_running/,
    fix: /[Cc]ancel/,
    command: /^ductile job cancel /,
  },
};

export const pausedSchedule: Breakage = {
  name: 'a schedule that somebody paused and forgot',
  setup: {
    plugins: { feed: { program: succeeds, settings: { schedules: [{ every: '1s' }] } } },
  },
  async break(installation) {
    await installation.client.post('/schedules/feed/pause');
    const { status } = await findSchedule(installation);
    const done = (await installation.jobsAre('feed', 'succeeded', 0)).length;
    if (status !== 'paused') throw new Error(`the schedule is ${JSON.stringify(status)}`);
    return {
      works: async () => void (await installation.jobsAre('feed', 'succeeded', done + 1)),
    };
  },
  finding: {
    id: /^paused:schedule\/feed\/default/,
    message: /feed.default.*paused/,
    evidence: /^\S.* at 20\d\d-\S+/,
    fix: /[Rr]esume/,
    command: /^ductile schedule resume feed default/,
  },
};

export const pausedSystem: Breakage = {
  name: 'a paused system that somebody forgot',
  setup: { plugins: { mail: { program: succeeds } } },
  async break(installation) {
    await installation.client.post('/system/pause');
    const id = await installation.submit('mail');
    return { works: async () => void (await installation.jobIs(id, 'succeeded')) };
  },
  finding: {
    id: /^paused:system/,
    message: /paused/,
    evidence: /^\S.* at 20\d\d-\S+/,
    fix: /[Rr]esume/,
    command: /^ductile system resume/,
  },
};
