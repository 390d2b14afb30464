import { expect, test } from 'vitest';
import { makePluginSwitches } from '../../src/job/pause.service.ts';
import type { PluginSwitch } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';

const mail: PluginSwitch = { plugin: 'mail', changedBy: 'ann', changedAt: '' };

/** Reads of a ledger that the test completes in any order. */
function makeSlow() {
  const answers: ((off: PluginSwitch[]) => void)[] = [];
  const listDisabled = () => new Promise<PluginSwitch[]>((resolve) => answers.push(resolve));
  return {
    switches: makePluginSwitches({ plugins: { listDisabled } } as unknown as Ledger),
    answers,
  };
}

test('a caller sees the state of its own request, even while a later read is in progress', async () => {
  const { switches, answers } = makeSlow();
  const first = switches.refresh();
  const second = switches.refresh();
  answers[0]?.([mail]);
  await first;
  expect(switches.isDisabled('mail')).toBe(true);
  answers[1]?.([]);
  await second;
  expect(switches.isDisabled('mail')).toBe(false);
});

test('the result of an earlier read is ignored after that of a later one', async () => {
  const { switches, answers } = makeSlow();
  const first = switches.refresh();
  const second = switches.refresh();
  answers[1]?.([mail]);
  await second;
  answers[0]?.([]);
  await first;
  expect(switches.isDisabled('mail')).toBe(true);
  expect(switches.disabled).toEqual([mail]);
});
