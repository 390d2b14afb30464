import * as inspector from 'node:inspector';
import { expect, onTestFinished, test } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { refuseUnisolated } from '../../src/tenant/require-isolation.service.ts';
import type { Isolation } from '../../src/plugin/isolation.ts';

const configOf = (trust: 'isolated' | 'shared') => ({ tenants: { trust } }) as Config;
const stateOf = (tier: Isolation['tier']): Isolation => ({
  tier,
  hasOwnUser: false,
  reason: tier === 'none' ? 'no kernel for it' : undefined,
  confine: (spec) => spec,
});

test('tenants need a tier, unless all trust each other', () => {
  const refusal = /no kernel for it/;
  expect(() => refuseUnisolated(configOf('isolated'), () => stateOf('none'))).toThrow(refusal);
  expect(() => refuseUnisolated(configOf('isolated'), undefined)).toThrow('unknown');
  refuseUnisolated(configOf('isolated'), () => stateOf('namespaces'));
  refuseUnisolated(configOf('shared'), () => stateOf('none'));
});

test('tenants are refused while an inspector is open', () => {
  inspector.open(0, '127.0.0.1');
  onTestFinished(() => inspector.close());
  const refuse = () => refuseUnisolated(configOf('isolated'), () => stateOf('namespaces'));
  expect(refuse).toThrow('open inspector');
});
