import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { fillProvides, isFromInstaller, withDefaults } from '../../src/package/provision.ts';
import type { Provides } from '../../src/package/package.ts';

function filled(plugins: JsonObject, config: JsonObject) {
  const provides: Provides = { plugins, routes: [], pipelines: [], handlers: [], webhooks: [] };
  const result = fillProvides(provides, config);
  return { plugins: result.provides.plugins, faults: result.faults };
}

describe('the settings of the installer', () => {
  test('comes with its type where nothing else stands, and as text elsewhere', () => {
    const plugin = {
      whole: '${config.count}',
      list: ['${config.names}', 'x'],
      deep: { text: 'at ${config.a.b}: ${ config.count }%' },
    };
    const config = { count: 3, names: ['a', 'b'], a: { b: 'x' } };
    expect(filled({ plugin }, config)).toEqual({
      plugins: { plugin: { whole: 3, list: [['a', 'b'], 'x'], deep: { text: 'at x: 3%' } } },
      faults: [],
    });
  });

  test('leaves away what was left open, but not in the middle of a text', () => {
    const { plugins, faults } = filled({ p: { a: '${config.no}', b: 'x ${config.no}' } }, {});
    expect(plugins).toEqual({ p: { b: 'x ' } });
    expect(faults).toMatchObject([{ at: ['plugins', 'p', 'b'] }]);
  });

  test('may escape ${ as $${, at every depth', () => {
    const config = { a: 'echo $${1}', list: [{ b: '$${' }] };
    const { plugins } = filled({ p: { x: '${config.a}', y: '${config.list}' } }, config);
    expect(plugins).toEqual({ p: { x: 'echo ${1}', y: [{ b: '${' }] } });
  });

  test('is never looked at again, and $${ is the text itself', () => {
    const config = { a: '${config.b}', b: 'secret' };
    expect(filled({ p: { x: '${config.a} $${config.b}' } }, config).plugins).toEqual({
      p: { x: '${config.b} ${config.b}' },
    });
  });

  test.each(['${HOME}', '${config}', '${config.a', '${env.PATH}', '${config.a.__proto__}x'])(
    '%s is refused',
    (text) => expect(filled({ p: { x: text } }, { a: 'v' }).faults).toHaveLength(1),
  );

  test('makes no names', () => {
    expect(filled({ '${config.a}': {} }, { a: 'v' }).faults).toHaveLength(1);
  });
});

test('defaults of the schema fill in missing values, at any depth', () => {
  const schema = {
    properties: {
      a: { default: 1 },
      b: { properties: { c: { default: 'x' } } },
      d: { properties: { e: { default: 'y' } } },
    },
  };
  expect(withDefaults(schema, { b: {} })).toEqual({ a: 1, b: { c: 'x' } });
  expect(withDefaults(undefined, { z: 1 })).toEqual({ z: 1 });
});

test('a value is from the installer only if all its parts are', () => {
  expect(isFromInstaller('${config.a}')).toBe(true);
  expect(isFromInstaller({ on_push: '${config.command}' })).toBe(true);
  expect(isFromInstaller(['${config.a}', 'rm'])).toBe(false);
  expect(isFromInstaller('rm ${config.a}')).toBe(false);
});
