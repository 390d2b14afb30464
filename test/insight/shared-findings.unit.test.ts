import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import type { Engine } from '../../src/engine/engine.ts';
import { makePrincipal } from '../../src/access/tokens.service.ts';
import type { Context } from '../../src/operation/context.ts';
import { makeSharedFindings, SharedExamination } from '../../src/insight/doctor.operations.ts';

describe('a shared examination', () => {
  test('is one for all callers that come together, and begins after they have asked', async () => {
    const shared = new SharedExamination<number>();
    let written = 0;
    let examined = 0;
    const examine = async (): Promise<number> => {
      examined += 1;
      const seen = written;
      await Promise.resolve();
      return seen;
    };
    const first = shared.get(examine);
    written = 1;
    const others = Array.from({ length: 40 }, () => shared.get(examine));
    const [, ...seen] = [await first, ...(await Promise.all(others))];
    expect(seen).toEqual(seen.map(() => 1));
    written = 2;
    expect(await shared.get(examine)).toBe(2);
    expect(examined).toBeLessThanOrEqual(3);
  });

  test('rests after the last one, however many ask', async () => {
    const shared = new SharedExamination<void>();
    const began: number[] = [];
    const tookMs = limits.figureMs / limits.figureRestFactor;
    const examine = async (): Promise<void> => {
      began.push(performance.now());
      await new Promise((resolve) => setTimeout(resolve, tookMs));
    };
    await shared.get(examine);
    await Promise.all(Array.from({ length: 20 }, () => shared.get(examine)));
    const [first = 0, second = 0] = began;
    expect(began).toHaveLength(2);
    expect(second - first).toBeGreaterThanOrEqual(limits.figureMs * 0.9);
  });

  test('that fails is not kept', async () => {
    const shared = new SharedExamination<string>();
    await expect(shared.get(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await shared.get(() => Promise.resolve('yes'))).toBe('yes');
  });
});

test("callers that see everything don't share with the others, and the others share one mask", async () => {
  const ledger = { jobs: {}, attempts: {}, runs: {} } as Engine['ledger'];
  const contextOf = (scopes: readonly string[], actor: string): Context => ({
    engine: { ledger } as Engine,
    principal: makePrincipal(actor, scopes),
    submittedBy: 'api',
  });
  const share = makeSharedFindings<string>();
  const examine = ({ principal, engine }: Context): Promise<string> =>
    Promise.resolve(`${principal.actor} ${engine.ledger === ledger ? 'bare' : 'veiled'}`);
  const requests = [
    contextOf(['*'], 'owner'),
    contextOf(['system:ro'], 'ann'),
    contextOf(['system:ro'], 'bob'),
  ];
  const seen = await Promise.all(requests.map((context) => share(context, examine)));
  expect(seen).toEqual(['owner bare', 'anonymous veiled', 'anonymous veiled']);
});
