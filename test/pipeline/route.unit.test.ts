import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { matchRoutes, type Route } from '../../src/pipeline/language/pipeline.ts';

function route(from: string | undefined, eventType: string, plugin: string): Route {
  return { from, eventType, plugin, command: 'handle' };
}

const routes = [
  route('withings', 'new', 'analyzer'),
  route(undefined, 'new', 'archive'),
  route('other', 'new', 'never'),
  route('withings', 'alert', 'notify'),
  route('withings', 'new', 'analyzer'),
];

function targets(source: string, type: string): string[] {
  return matchRoutes(routes, { source, type }).map(({ plugin }) => plugin);
}

describe('matchRoutes', () => {
  test('an event uses every route that matches, in the order of definition', () => {
    expect(targets('withings', 'new')).toEqual(['analyzer', 'archive', 'analyzer']);
    expect(targets('withings', 'alert')).toEqual(['notify']);
  });

  test('a route without a source accepts events of any source', () => {
    expect(targets('unheard-of', 'new')).toEqual(['archive']);
  });

  test('words match exactly: no case folding, no patterns, no prefixes', () => {
    for (const type of ['New', 'ne', 'new ', 'new.x', '*', '']) {
      expect(targets('withings', type)).toEqual([]);
    }
    expect(matchRoutes([route(undefined, '*', 'all')], { source: 'a', type: 'new' })).toEqual([]);
    expect(matchRoutes([route('', 'new', 'x')], { source: 'a', type: 'new' })).toEqual([]);
  });

  test('it returns what a reader of the list would choose', () => {
    const word = fc.constantFrom('a', 'b', '');
    const anyRoute = fc.record({ from: fc.option(word, { nil: undefined }), eventType: word });
    fc.assert(
      fc.property(fc.array(anyRoute), word, word, (list, source, type) => {
        const picked = list.filter(
          (one) => one.eventType === type && [undefined, source].includes(one.from),
        );
        expect(matchRoutes(list, { source, type })).toEqual(picked);
      }),
    );
  });
});
