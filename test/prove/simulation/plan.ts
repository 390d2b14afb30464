/** The plan of a world from its seed: the kinds of faults, and their rates. */
import { between, type Random } from '../../support/crash/random.ts';
import type { DatabaseFaults } from './database.ts';
import { REAP_AFTER_MS } from './world-setup.ts';

export const troubles = ['crash', 'freeze', 'leave', 'outage', 'cutOff', 'clock'] as const;
export type Trouble = (typeof troubles)[number];

/** Most worlds are small: few hosts and requests find most mistakes, and many worlds fit in the time. */
export type Size = 'small' | 'large';

export interface Plan {
  readonly size: Size;
  readonly kind: 'sqlite' | 'postgres';
  readonly hosts: number;
  readonly clients: number;
  /** The duration of the phase with faults. */
  readonly stormMs: number;
  /** The failures of hosts, and their rates. */
  readonly troubles: readonly Trouble[];
  readonly troubleEveryMs: number;
  /** The longest duration of a temporary fault; some last longer than `reap_after`. */
  readonly troubleMsMax: number;
  readonly faults: DatabaseFaults;
  readonly hintsLost: number;
  /** The pause between two requests of a client. */
  readonly pauseMs: number;
  /** The maximum number of requests of each client. */
  readonly wishes: number;
  readonly isHostile: boolean;
  /** The share of jobs that run for longer than `reap_after`. */
  readonly longShare: number;
}

const LARGE_EVERY = 100;

export function sizeOf(seed: number): Size {
  return seed % LARGE_EVERY === 0 ? 'large' : 'small';
}

export function drawPlan(random: Random, size: Size): Plan {
  const plan = drawAny(random, size);
  return random() < FROZEN ? { ...plan, ...asleep, ...frozen[size] } : plan;
}

/** The fence matters rarely: a host sleeps while others continue its work. */
const FROZEN = 0.25;
const asleep = {
  kind: 'postgres',
  troubles: ['freeze', 'freeze', 'cutOff'],
  isHostile: false,
} as const;
const frozen: Readonly<Record<Size, Partial<Plan>>> = {
  small: { hosts: 2, stormMs: 45_000, troubleEveryMs: 8000, longShare: 0.3 },
  large: {
    hosts: 3,
    clients: 3,
    stormMs: 240_000,
    troubleEveryMs: 10_000,
    pauseMs: 500,
    longShare: 0.2,
  },
};

/** The differences between sizes. */
interface Scale {
  readonly hosts: (random: Random) => number;
  readonly clientsMax: number;
  readonly stormMs: (random: Random) => number;
  readonly troubleEveryMs: (random: Random) => number;
  readonly troubleMsMax: number;
  readonly wishes: (random: Random) => number;
  readonly longShareMax: number;
}

const scales: Readonly<Record<Size, Scale>> = {
  small: {
    hosts: (random) => (random() < 0.8 ? 2 : 3),
    clientsMax: 2,
    stormMs: (random) => between(random, 10, 40) * 1000,
    troubleEveryMs: (random) => between(random, 2, 20) * 1000,
    troubleMsMax: 2 * REAP_AFTER_MS,
    wishes: (random) => between(random, 2, 5),
    longShareMax: 0,
  },
  large: {
    hosts: (random) => 1 + Math.floor(random() ** 2 * 5),
    clientsMax: 3,
    stormMs: (random) => between(random, 2, 8) * 30_000,
    troubleEveryMs: (random) => between(random, 5, 60) * 1000,
    troubleMsMax: 3 * REAP_AFTER_MS,
    wishes: () => Infinity,
    longShareMax: 0.2,
  },
};

function drawAny(random: Random, size: Size): Plan {
  const chance = (share: number): boolean => random() < share;
  const rate = (most: number): number => (chance(0.5) ? random() * most : 0);
  const scale = scales[size];
  const isShared = chance(0.7);
  return {
    size,
    kind: isShared ? 'postgres' : 'sqlite',
    hosts: isShared ? scale.hosts(random) : 1,
    clients: between(random, 1, scale.clientsMax),
    stormMs: scale.stormMs(random),
    troubles: troubles.filter(() => chance(0.5)),
    troubleEveryMs: scale.troubleEveryMs(random),
    troubleMsMax: scale.troubleMsMax,
    faults: {
      away: rate(0.02),
      broken: rate(0.01),
      lost: isShared ? rate(0.05) : 0,
      undone: isShared ? rate(0.02) : 0,
      killed: rate(0.004),
      slow: rate(0.2),
      wayMs: chance(0.8) ? 4 : 400,
    },
    hintsLost: rate(1),
    pauseMs: between(random, 500, 8000),
    wishes: scale.wishes(random),
    isHostile: chance(0.7),
    longShare: rate(scale.longShareMax),
  };
}
