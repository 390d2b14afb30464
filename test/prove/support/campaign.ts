/**
 * A campaign is one trial with many seeds. `npm test` runs a few of them; `npm run prove` runs as many
 * as there is time for, and keeps a line of each.
 */
import { appendFileSync } from 'node:fs';
import { onTestFinished, test } from 'vitest';
import { messageOf } from '../../../src/base/errors.ts';
import { makeRandom } from '../../support/crash/random.ts';
import { countCleanups, runCleanups } from '../../support/at-end.ts';
import type { Figures, TrialLine } from './report.ts';

export interface Trial {
  readonly index: number;
  /** A trial with the same seed draws the same faults. */
  readonly seed: number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** True in `npm test`, where a trial has only seconds. */
  readonly isShort: boolean;
}

export interface CampaignOptions {
  /** The number of trials in `npm test`, always the same ones. */
  readonly trials: number;
  readonly timeoutMs: number;
}

/** The request of `npm run prove` to the file, in DUCTILE_PROVE. */
export interface CampaignRequest {
  readonly seed: number;
  readonly from: number;
  /** The distance between two trials: other processes may run those between. */
  readonly step: number;
  readonly trials: number;
  /** The deadline for the start of a trial, in milliseconds since 1970. */
  readonly untilMs: number;
  /** The file to which each trial adds a line. */
  readonly file: string;
}

const SEED = 1;
const campaignRequest = readAsked();
/** True in `npm test`, where a trial has only seconds. */
export const isShort = campaignRequest === undefined;

/** Runs trials; each throws when a promise is broken, and returns figures otherwise. */
export function campaign(
  name: string,
  { trials, timeoutMs }: CampaignOptions,
  run: (trial: Trial) => Promise<Figures>,
): void {
  const {
    from,
    step,
    trials: count,
    seed,
  } = campaignRequest ?? { from: 0, step: 1, trials, seed: SEED };
  const indices = Array.from({ length: count }, (_, nth) => from + nth * step);
  test.for(indices)(`${name}, trial %i`, { timeout: timeoutMs }, async (index, { skip }) => {
    if (campaignRequest !== undefined && Date.now() >= campaignRequest.untilMs) skip();
    // The resources of a trial are released before the next one: there may be thousands.
    const before = countCleanups();
    onTestFinished(() => runCleanups(before));
    const trial = { index, seed: seed + index, random: makeRandom(seed + index), isShort };
    const began = performance.now();
    const keep = (found: Pick<TrialLine, 'figures' | 'fault'>): void =>
      note({ index, seed: trial.seed, ms: Math.round(performance.now() - began), ...found });
    try {
      keep({ figures: await run(trial) });
    } catch (error) {
      keep({ fault: messageOf(error) });
      throw error;
    }
  });
}

function note(line: TrialLine): void {
  if (campaignRequest !== undefined)
    appendFileSync(campaignRequest.file, `${JSON.stringify(line)}\n`);
}

function readAsked(): CampaignRequest | undefined {
  const text = process.env['DUCTILE_PROVE'];
  return text === undefined ? undefined : (JSON.parse(text) as CampaignRequest);
}
