/** Occasional faults that a server survives. */
import { setTimeout as sleep } from 'node:timers/promises';
import { between, pick, type Random } from '../../support/crash/random.ts';
import { findSpawner, type Server } from '../../support/crash/server.ts';
import type { Journal } from '../support/journal.ts';

interface Means {
  readonly server: Server;
  readonly random: Random;
  readonly ms: number;
  readonly journal: Journal;
}

const freezeMs = [50, 250] as const;
/** The share of slices with a fault. */
const SHARE = 0.7;

/** At most once in a slice of so many milliseconds. */
export async function disturb(means: Means): Promise<void> {
  const { random, ms } = means;
  const isDue = random() < SHARE;
  const atMs = between(random, 0, Math.floor(ms / 2));
  const kind = pick([killHelper, freeze, reload], random);
  if (!isDue) return;
  await sleep(atMs);
  await kind(means);
}

async function killHelper({ server, journal }: Means): Promise<void> {
  const spawner = await findSpawner(server.pid);
  if (spawner === undefined) return;
  const kill = async (): Promise<void> => void process.kill(spawner, 'SIGKILL');
  await journal.during('spawnerKills', kill, 'other');
}

async function freeze({ server, random, journal }: Means): Promise<void> {
  const forMs = between(random, ...freezeMs);
  const hold = async (): Promise<void> => {
    server.signal('SIGSTOP');
    await sleep(forMs);
    server.signal('SIGCONT');
  };
  await journal.during('freezes', hold, 'other');
}

async function reload({ server, journal }: Means): Promise<void> {
  await journal.during('reloads', async () => server.signal('SIGHUP'), 'other');
}
