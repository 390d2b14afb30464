/** Schedules and pauses: work that nobody starts, and nothing fails. */
import { rm } from 'node:fs/promises';
import type { JsonObject } from '../../../src/base/json.ts';
import { eventually } from '../../support/instance.ts';
import { succeeds } from '../../support/plugin-program.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';
import { failsInTrouble, once } from './plugin-kinds.ts';

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

/** The schedule is due sometime, which it isn't as long as its times are all skipped. */
async function previewFires({ client }: Installation): Promise<void> {
  const from = new Date().toISOString();
  const to = new Date(Date.now() + 3 * 86_400_000).toISOString();
  await eventually('the schedule fires in the preview', async () => {
    const { body } = await client.get(`/schedules/preview?from=${from}&to=${to}`);
    return (
      JSON.stringify(body).includes('"fires":true') ||
      /"outcome":"fires?"/.test(JSON.stringify(body))
    );
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
    fix: /reset/,
    command: /^ductile system reset feed/,
  },
};

export const neverFires: Breakage = {
  name: 'a schedule that never fires',
  setup: { plugins: { feed: { program: succeeds, settings: { schedules: [nightly] } } } },
  async break(installation) {
    await installation.edit(({ plugins }) => {
      const schedules = [{ ...nightly, only_between: '08:00-18:00' }];
      plugins['feed'] = { ...plugins['feed'], schedules };
    });
    await reload(installation);
    return { works: () => previewFires(installation) };
  },
  finding: {
    id: /^schedule_never_fires:feed/,
    message: /feed.default/,
    evidence: /only_between|08:00-18:00|outside_time_window/,
    fix: /only_between/,
    command: /^ductile config (un)?set .*only_between.*reload/,
  },
};

export const alwaysSkipped: Breakage = {
  name: 'a schedule that is always skipped',
  setup: { plugins: { feed: { program: succeeds, settings: { schedules: [nightly] } } } },
  async break(installation) {
    await installation.edit(({ service }) => {
      service['quiet_hours'] = { start: 21, end: 8 };
    });
    await reload(installation);
    return { works: () => previewFires(installation) };
  },
  finding: {
    id: /^schedule_(never_fires|always_skipped):feed/,
    message: /feed.default/,
    evidence: /quiet/,
    fix: /quiet/,
    command: /^ductile config (un)?set .*quiet.*reload/,
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
    if (status !== 'paused') throw new Error(`the schedule is ${String(status)}`);
    return {
      works: async () => void (await installation.jobsAre('feed', 'succeeded', done + 1)),
    };
  },
  finding: {
    id: /^schedule_paused:feed/,
    message: /feed.default.*paused/,
    evidence: /paused.*by.*at|by .* since/,
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
    id: /^system_paused:/,
    message: /paused/,
    evidence: /by .*20\d\d-|1 job/,
    fix: /[Rr]esume/,
    command: /^ductile system resume/,
  },
};
