/** What a seed makes of a world: each has some kinds of trouble, more or less of each. */
import { between, type Random } from '../../crash/support/random.ts';
import type { DatabaseFaults } from './database.ts';

export const troubles = ['crash', 'freeze', 'leave', 'outage', 'cutOff', 'clock'] as const;
export type Trouble = (typeof troubles)[number];

export interface Plan {
  readonly kind: 'sqlite' | 'postgres';
  readonly hosts: number;
  readonly clients: number;
  /** How long things go wrong. */
  readonly stormMs: number;
  /** What goes wrong with hosts, and how often. */
  readonly troubles: readonly Trouble[];
  readonly troubleEveryMs: number;
  readonly faults: DatabaseFaults;
  readonly hintsLost: number;
  /** How clients' wishes are spread. */
  readonly pauseMs: number;
  readonly isHostile: boolean;
  /** The share of jobs that run for longer than `reap_after`. */
  readonly longShare: number;
}

export function drawPlan(random: Random): Plan {
  const plan = drawAny(random);
  return random() < FROZEN ? { ...plan, ...frozen } : plan;
}

/** What a fence is for is rare: a host that sleeps while others take over what it holds. */
const FROZEN = 0.25;
const frozen: Omit<Plan, 'faults' | 'hintsLost'> = {
  kind: 'postgres',
  hosts: 3,
  clients: 3,
  stormMs: 240_000,
  troubles: ['freeze', 'freeze', 'cutOff'],
  troubleEveryMs: 10_000,
  pauseMs: 500,
  isHostile: false,
  longShare: 0.2,
};

function drawAny(random: Random): Plan {
  const chance = (share: number): boolean => random() < share;
  const rate = (most: number): number => (chance(0.5) ? random() * most : 0);
  const isShared = chance(0.7);
  return {
    kind: isShared ? 'postgres' : 'sqlite',
    hosts: isShared ? 1 + Math.floor(random() ** 2 * 5) : 1,
    clients: between(random, 1, 3),
    stormMs: between(random, 2, 8) * 30_000,
    troubles: troubles.filter(() => chance(0.5)),
    troubleEveryMs: between(random, 5, 60) * 1000,
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
    isHostile: chance(0.7),
    longShare: rate(0.2),
  };
}
