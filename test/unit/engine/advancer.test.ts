import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DuctileError } from '../../../src/base/errors.ts';
import { limits } from '../../../src/base/limits.ts';
import { makeLogger } from '../../../src/base/log.ts';
import { makeAdvancer, type Advancer } from '../../../src/engine/advancer.ts';
import { noNews, type AdvanceAnswer, type RunNews } from '../../../src/ledger/runs.ts';

const POLL_MS = 1000;

/** A ledger with branches that take so many batches each. */
class Fake {
  /** Batches that are left, by branch. */
  readonly left = new Map<string, number>();
  readonly waiting: string[] = [];
  readonly batches: string[] = [];
  readonly releases: { branchId: string; error: string; triesMax: number }[] = [];
  readonly news: RunNews[] = [];
  nextInMs: number | undefined;
  claims = 0;
  fault: (branchId: string) => Error | undefined = () => undefined;
  verdict: AdvanceAnswer['verdict'] | undefined;
  readonly advancer: Advancer;

  constructor() {
    this.advancer = makeAdvancer({
      ledger: {
        claimBranches: ({ limit }) => {
          this.claims += 1;
          const branchIds = this.waiting.splice(0, limit);
          return Promise.resolve({ branchIds, nextInMs: this.nextInMs });
        },
        advance: ({ branchId }) => this.#advance(branchId),
        releaseBranch: ({ branchId, error, triesMax }) => {
          this.releases.push({ branchId, error, triesMax });
          return Promise.resolve({ ...noNews, dueInMs: 77 });
        },
      },
      processId: 'me',
      pollMs: () => POLL_MS,
      onNews: (news) => this.news.push(news),
      log: makeLogger({ level: 'error', format: 'json', destination: { write: () => undefined } }),
    });
  }

  add(branchId: string, batches: number): void {
    this.left.set(branchId, batches);
    this.waiting.push(branchId);
  }

  #advance(branchId: string): Promise<AdvanceAnswer> {
    const fault = this.fault(branchId);
    if (fault !== undefined) return Promise.reject(fault);
    const left = (this.left.get(branchId) ?? 1) - 1;
    this.left.set(branchId, left);
    this.batches.push(branchId);
    const verdict = this.verdict ?? (left > 0 ? 'more' : 'done');
    return Promise.resolve({ ...noNews, queued: true, verdict });
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Between batches the advancer lets real turns of the event loop pass. */
async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let count = 0; count < 20; count += 1) {
    await turn();
    await vi.advanceTimersByTimeAsync(0);
  }
}

describe('the advancer', () => {
  test('moves a wide branch on in batches, and others take turns with it', async () => {
    const fake = new Fake();
    fake.add('wide', 3);
    fake.add('small', 1);
    await fake.advancer.start();
    await pass(0);
    expect(fake.batches).toEqual(['wide', 'small', 'wide', 'wide']);
    expect(fake.news.every(({ queued }) => queued)).toBe(true);
    await fake.advancer.stop();
  });

  test('holds no more branches than its limit, and comes back for the rest', async () => {
    const fake = new Fake();
    const count = limits.advancedAtOnceMax + 3;
    for (let index = 0; index < count; index += 1) fake.add(`b${index}`, 1);
    await fake.advancer.start();
    await pass(POLL_MS - 1);
    expect(new Set(fake.batches).size).toBe(count);
    await fake.advancer.stop();
  });

  test('looks when it is told, when something is due and at its interval', async () => {
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

  test('gives a branch back that cannot be moved, with the reason, and goes on with others', async () => {
    const fake = new Fake();
    fake.add('bad', 1);
    fake.add('good', 1);
    fake.fault = (id) => (id === 'bad' ? new Error('no such node') : undefined);
    await fake.advancer.start();
    await pass(0);
    const triesMax = limits.advancementTriesMax;
    expect(fake.releases).toEqual([{ branchId: 'bad', error: 'no such node', triesMax }]);
    expect(fake.batches).toEqual(['good']);
    expect(fake.news).toContainEqual({ ...noNews, dueInMs: 77 });
    await fake.advancer.stop();
  });

  test('charges nobody while the database is away, and goes on when it is back', async () => {
    const fake = new Fake();
    fake.add('one', 2);
    let isAway = true;
    fake.fault = () => (isAway ? new DuctileError('LEDGER_UNAVAILABLE', 'away') : undefined);
    await fake.advancer.start();
    await pass(limits.advanceRetryMs * 3);
    expect(fake.batches).toEqual([]);
    isAway = false;
    await pass(limits.advanceRetryMs);
    expect(fake.batches).toEqual(['one', 'one']);
    expect(fake.releases).toEqual([]);
    await fake.advancer.stop();
  });

  test('lets go of a branch that somebody else has taken', async () => {
    const fake = new Fake();
    fake.add('lost', 5);
    fake.verdict = 'fenced';
    await fake.advancer.start();
    await pass(0);
    expect(fake.batches).toEqual(['lost']);
    await fake.advancer.stop();
  });

  test('stops after the batch that is under way', async () => {
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
