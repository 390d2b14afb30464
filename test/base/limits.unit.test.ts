import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';

const parts = new URL('../../src/base/limits/', import.meta.url);

test('no limit replaces another of the same name', async () => {
  const names: string[] = [];
  for (const file of readdirSync(parts)) {
    const part = (await import(new URL(file, parts).href)) as Readonly<Record<string, unknown>>;
    for (const value of Object.values(part)) {
      if (typeof value === 'object' && value !== null) names.push(...Object.keys(value));
    }
  }
  expect(Object.keys(limits).toSorted()).toEqual(names.toSorted());
});
