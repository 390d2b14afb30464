import { makeContext } from '../support/context.ts';
import type { CommitEvents } from '../../src/engine/commit-events.ts';
import type { Config } from '../../src/config/config.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { limits } from '../../src/base/limits.ts';
import { makeLogger } from '../../src/base/log.ts';
import { makeAdvancer, type Advancer } from '../../src/pipeline/run/advancer.service.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import type {
  AdvanceResult,
  AdvanceRequest,
  BranchClaim,
  BranchClaimRequest,
} from '../../src/pipeline/run/types.ts';

const POLL_MS = 5000;

/** A ledger with branches that need the given number of batches each. */
class Fake {
  /** Batches that are left, by branch. */
  readonly left = new Map<string, number>();
  readonly waiting: string[] = [];
  readonly batches: string[] = [];
  readonly releases: { branchId: string; error: string; triesMax: number }[] = [];
  readonly news: CommitEvents[] = [];
  readonly lines: string[] = [];
  /** The limit of each claim, and the number of branches that were claimed before. */
  readonly asked: { limit: number; held: number }[] = [];
  /** The number of attempts to advance a branch. */
  tries = 0;
  nextInMs: number | undefined;
  onClaim: () => void = () => undefined;
  fault: (branchId: string) => Error | undefined = () => undefined;
  verdict: AdvanceResult['verdict'] | undefined;
  readonly advancer: Advancer;
  /** The claimed branches with their tokens. Another token is fenced. */
  readonly #held = new Map<string, string>();

  constructor() {
    const config = { service: { pollIntervalMs: POLL_MS } } as unknown as Config;
    const context = makeContext({
      ledger: {
        runs: {
          claimBranches: (request) => this.#claim(request),
          advance: (request) => this.#advance(request),
          releaseBranch: ({ branchId, token, error, triesMax }) => {
            if (this.#held.get(branchId) === token) {
              this.releases.push({ branchId, error, triesMax });
            }
            return Promise.resolve({ ...noRunEvents, dueInMs: 77 });
          },
        },
      },
      generation: { config },
      log: makeLogger({
        level: 'warn',
        format: 'json',
        destination: { write: (line) => this.lines.push(line) },
      }),
    });
    context.commits.subscribe((events) => this.news.push(events));
    this.advancer = makeAdvancer(context);
  }

  get claims(): number {
    return this.asked.length;
  }

  add(branchId: string, batches: number): void {
    this.left.set(branchId, batches);
    this.waiting.push(branchId);
  }

  #claim({ processId, token, limit }: BranchClaimRequest): Promise<BranchClaim> {
    this.asked.push({ limit, held: this.#held.size });
    this.onClaim();
    const branchIds = processId === 'me' ? this.waiting.splice(0, limit) : [];
    for (const id of branchIds) this.#held.set(id, token);
    return Promise.resolve({ branchIds, nextInMs: this.nextInMs });
  }

  #advance({ branchId, token }: AdvanceRequest): Promise<AdvanceResult> {
    this.tries += 1;
    const fault = this.fault(branchId);
    if (fault !== undefined) return Promise.reject(fault);
    const left = (this.left.get(branchId) ?? 1) - 1;
    this.left.set(branchId, left);
    this.batches.push(branchId);
    const isOurs = this.#held.get(branchId) === token;
    const verdict = isOurs ? (this.verdict ?? (left > 0 ? 'more' : 'done')) : 'fenced';
    if (verdict !== 'more') this.#held.delete(branchId);
    return Promise.resolve({ ...noRunEvents, queued: true, verdict });
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The advancer yields to the event loop between batches. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let count = 0; count < 20; count += 1) {
    await turn();
    await vi.advanceTimersByTimeAsync(0);
  }
}

describe('the advancer', () => {
  test('advances a wide branch in batches, and others take turns with it', async () => {
    const fake = new Fake();
    fake.add('wide', 3);
    fake.add('small', 1);
    await fake.advancer.start();
    await pass(0);
    expect(fake.batches).toEqual(['wide', 'small', 'wide', 'wide']);
    expect(fake.news.map(({ queued }) => queued)).toEqual([true, true, true, true]);
    expect(fake.lines).toEqual([]);
    await fake.advancer.stop();
  });

  test('claims no more branches than its limit, and claims the rest later', async () => {
    const fake = new Fake();
    const count = limits.advancedAtOnceMax + 3;
    for (let index = 0; index < count; index += 1) fake.add(`b${index}`, 2);
    await fake.advancer.start();
    await pass(POLL_MS - 1);
    expect(new Set(fake.batches).size).toBe(count);
    expect(fake.batches).toHaveLength(2 * count);
    for (const { limit, held } of fake.asked) {
      expect(limit).toBe(limits.advancedAtOnceMax - held);
      expect(limit).toBeGreaterThan(0);
    }
    await fake.advancer.stop();
  });

  test('claims when it is notified, when a branch is due and at its interval', async () => {
    const fake = new Fake();
    await fake.advancer.start();
    await pass(0);
    expect(fake.claims).toBe(1);
    fake.advancer.soon();
    await pass(0);
    expect(fake.claims).toBe(2);

    fake.advancer.dueIn(300);
    fake.advancer.dueIn(700);
    await pass(299);
    expect(fake.claims).toBe(2);
    await pass(2);
    expect(fake.claims).toBe(3);
    await pass(POLL_MS);
    expect(fake.claims).toBe(4);
    fake.nextInMs = 40;
    await pass(POLL_MS);
    fake.nextInMs = undefined;
    const before = fake.claims;
    await pass(40);
    expect(fake.claims).toBe(before + 1);
    await fake.advancer.stop();
  });

  test('claims once more if it is notified during a claim', async () => {
    const fake = new Fake();
    fake.onClaim = () => {
      if (fake.claims === 1) fake.advancer.soon();
    };
    await fake.advancer.start();
    await pass(POLL_MS - 1);
    expect(fake.claims).toBe(2);
    await fake.advancer.stop();
  });

  test("releases a branch that can't be advanced, with the reason, and continues with others", async () => {
    const fake = new Fake();
    fake.add('bad', 1);
    fake.add('good', 1);
    fake.fault = (id) => (id === 'bad' ? new Error('no such node') : undefined);
    await fake.advancer.start();
    await pass(0);
    const triesMax = limits.advancementAttemptsMax;
    expect(fake.releases).toEqual([{ branchId: 'bad', error: 'no such node', triesMax }]);
    expect(fake.batches).toEqual(['good']);
    expect(fake.news).toContainEqual({ ...noRunEvents, dueInMs: 77 });
    expect(fake.lines).toEqual([expect.stringMatching(/bad.*no such node/)]);
    await fake.advancer.stop();
  });

  test('counts no failed try while the database is away, and continues when it is back', async () => {
    const fake = new Fake();
    const branches = Array.from({ length: limits.advancedAtOnceMax }, (_, index) => `b${index}`);
    for (const branch of branches) fake.add(branch, 2);
    // However soon the next one is due, and however many there are.
    fake.nextInMs = 1;
    let isAway = true;
    fake.fault = () => (isAway ? new DuctileError('LEDGER_UNAVAILABLE', 'away') : undefined);
    await fake.advancer.start();
    await pass(0);
    await pass(limits.advanceRetryMs);
    await pass(limits.advanceRetryMs);
    expect(fake.batches).toEqual([]);
    expect(fake.tries).toBe(3 * branches.length);
    expect(fake.lines).toEqual([expect.stringContaining('away')]);
    isAway = false;
    await pass(limits.advanceRetryMs);
    expect(fake.batches).toEqual([...branches, ...branches]);
    expect(fake.releases).toEqual([]);
    await fake.advancer.stop();
  });

  test('drops a branch that another process has claimed', async () => {
    const fake = new Fake();
    fake.add('lost', 5);
    fake.verdict = 'fenced';
    await fake.advancer.start();
    await pass(0);
    expect(fake.batches).toEqual(['lost']);
    expect(fake.lines).toEqual([expect.stringContaining('lost')]);
    await fake.advancer.stop();
  });

  test('stops after the batch in progress', async () => {
    const fake = new Fake();
    fake.add('endless', 1_000_000);
    await fake.advancer.start();
    await pass(0);
    await fake.advancer.stop();
    const after = fake.batches.length;
    await pass(POLL_MS);
    expect(fake.batches.length).toBe(after);
  });
});
