/** Failures of the whole service: a job that kills it, a full disk. */
import { chmodSync, rmSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { disks } from '../../support/crash/disk.ts';
import { eventually } from '../../support/instance.ts';
import { shell, succeeds } from '../../support/plugin-program.ts';
import type { Breakage } from './breakage.ts';
import type { Installation } from './installation.ts';

const CRASHES = 3;

/** Starts the service again whenever it was killed, as a service manager does; returns how to stop that. */
function superviseService(installation: Installation): {
  readonly crashes: () => number;
  readonly end: () => void;
} {
  let count = 0;
  const over = new AbortController();
  const watch = async (): Promise<void> => {
    for (;;) {
      await installation.server.exited;
      if (over.signal.aborted) return;
      count += 1;
      const server = await installation.start();
      await writeFile(installation.path('service.pid'), String(server.pid));
    }
  };
  watch().catch(() => 'it was killed before it was ready, or the test is over');
  return { crashes: () => count, end: () => over.abort() };
}

/** Each crash of a job delays its next attempt. */
const CRASH_LOOP_MS = 240_000;

export const crashLoop: Breakage = {
  name: 'a job that kills the service again and again',
  setup: {
    plugins: {
      mail: { program: succeeds },
      bomb: { program: shell('cat > /dev/null; kill -9 "$(cat ../../service.pid)"; sleep 60') },
    },
  },
  async break(installation) {
    await writeFile(installation.path('service.pid'), String(installation.server.pid));
    const manager = superviseService(installation);
    await installation.submit('bomb');
    const hasCrashed = () => manager.crashes() >= CRASHES;
    await eventually('the service crashed again and again', hasCrashed, CRASH_LOOP_MS);
    return {
      async works() {
        const crashed = manager.crashes();
        await eventually('work goes on', async () => {
          const id = await installation.submit('mail').catch(() => undefined);
          if (id === undefined) return false;
          await installation.jobIs(id, 'succeeded');
          return true;
        });
        manager.end();
        if (manager.crashes() > crashed) throw new Error('the service crashed once more');
      },
    };
  },
  finding: {
    id: /^crash_loop:bomb/,
    message: /bomb/,
    evidence: /\d+ service processes/,
    fix: /[Cc]ancel/,
    command: /^ductile job cancel /,
  },
};

const disk = disks.find(({ lack }) => lack === undefined);

export const fullDisk: Breakage = {
  name: 'a full disk',
  databases: ['sqlite'],
  setup: { plugins: { mail: { program: succeeds } } },
  async start(installation) {
    rmSync(installation.path('state'), { recursive: true });
    disk?.prepare(installation.path('state'));
    chmodSync(installation.path('state'), 0o700);
    await installation.start();
  },
  async break(installation) {
    const state = installation.path('state');
    const { pid } = installation.server;
    disk?.fill(state, pid);
    await eventually('work is refused', async () => {
      const { status } = await installation.client.post('/plugin/mail/poll', {
        payload: { padding: 'x'.repeat(8000) },
      });
      return status === 503;
    });
    return {
      byHand: async ({ id }) => {
        if (/disk/.test(id)) disk?.free(state, pid);
        await Promise.resolve();
      },
      async works() {
        await installation.jobIs(await installation.submit('mail'), 'succeeded');
      },
    };
  },
  finding: {
    id: /^disk_full:/,
    message: /disk/,
    evidence: /free/,
    fix: /[Ff]ree|space/,
    command: /^(df|ductile system prune)/,
  },
};
