import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { keyText, parseDocument, readDocument } from '../../src/config/document.ts';
import { makeDirectory } from '../support/directory.ts';

function problemsOf(text: string): string[] {
  return parseDocument(text, 'f').problems.map(
    ({ place, key, message }) => `${place} ${key} ${message}`,
  );
}

describe('an invalid document is refused', () => {
  test('a key given twice, with the line of the second', () => {
    expect(problemsOf('a: 1\nb: {x: 1, x: 2}\n')).toEqual([
      'f:2:11 x is given twice in the same map',
    ]);
  });

  test("a second document, a tab, a tag, a key that isn't text", () => {
    expect(problemsOf('a: 1\n---\nb: 2\n')[0]).toContain('f:2:1');
    expect(problemsOf('a:\n\t- b\n')[0]).toContain('a tab is used to indent');
    expect(problemsOf('a: !!binary aGk=\n')[0]).toContain('a YAML tag is used');
    expect(problemsOf('? [a]\n: 1\n')[0]).toContain('a key must be plain text');
  });

  test('aliases that multiply beyond measure, lead nowhere or in a circle', () => {
    const levels = ['a: &a [1,1,1,1,1,1,1,1,1]'];
    for (const name of ['b', 'c', 'd', 'e', 'f', 'g', 'h']) {
      const before = String.fromCodePoint((name.codePointAt(0) ?? 0) - 1);
      levels.push(`${name}: &${name} [${Array(9).fill(`*${before}`).join(',')}]`);
    }
    expect(problemsOf(levels.join('\n'))[0]).toMatch(/^f:8:\d+ .*Excessive alias count/);
    expect(problemsOf('a: *b')[0]).toContain('Unresolved alias');
    expect(problemsOf('a: &a [*a]')[0]).toContain('nested deeper');
  });

  test('numbers that would silently change', () => {
    expect(problemsOf('a: {b: [123456789012345678]}')).toEqual([
      'f:1:9 a.b[0] has more digits than a number can hold',
    ]);
    for (const number of ['0.1234567890123456789', '-.1234567890123456789', '1e-400', '4.9E-324']) {
      expect(problemsOf(`a: {b: [1.5, ${number}]}`)).toEqual([
        `f:1:14  ${number} has more digits than a number can hold`,
      ]);
    }
    for (const number of ['0.1', '1.50', '+1.5', '1e3', '5.', '0x1F', '1.0000000000000000000']) {
      expect(problemsOf(`a: ${number}`)).toEqual([]);
    }
    expect(problemsOf('a: .inf')).toEqual(['f:1:1 a is not a finite number']);
    expect(parseDocument('a: "123456789012345678"', 'f').value).toEqual({
      a: '123456789012345678',
    });
  });

  test("text that the ledger can't store", () => {
    expect(problemsOf('a: "\\0"')).toEqual(['f:1:1 a contains the character U+0000']);
    expect(problemsOf('a: {"\\0": 1}')[0]).toContain(
      'a has a key that contains the character U+0000',
    );
    expect(problemsOf('\uDFFF: 1')[0]).toContain('has a key that contains an unpaired surrogate');
    expect(problemsOf('a: {__proto__: {b: 1}}')[0]).toContain('__proto__');
  });

  test('nothing at all throws', () => {
    const unit = fc.constantFrom(...'ab1:-?,[]{}&*!|>#"\'% \n\t\uD800'.split(''));
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 40 }), (text) => {
        const { problems, value } = parseDocument(text, 'f');
        if (problems.length > 0) expect(value).toBeUndefined();
      }),
    );
  });
});

describe('locations', () => {
  const document = parseDocument('a:\n  b:\n    - c: 1\n    - d: &x {e: 1}\nf: *x\n', 'f.yaml');

  test.each([
    [['a'], 'f.yaml:1:1'],
    [['a', 'b'], 'f.yaml:2:3'],
    [['a', 'b', 1, 'd', 'e'], 'f.yaml:4:14'],
    [['a', 'b', 1, 'missing'], 'f.yaml:4:7'],
    [['f', 'e'], 'f.yaml:4:14'],
    [['nowhere'], 'f.yaml:1:1'],
  ])('%j', (path, place) => {
    expect(document.placeOf(path)).toBe(place);
  });

  test('merge keys work as they do elsewhere', () => {
    const { value } = parseDocument('a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}', 'f');
    expect(value).toEqual({ a: { x: 1, y: 1 }, b: { x: 1, y: 2 } });
  });

  test('key text quotes names with dots', () => {
    expect(keyText(['plugins', 'a.b', 'routes', 0, 'to'])).toBe('plugins["a.b"].routes[0].to');
  });
});

describe('readDocument', () => {
  test('says why a file cannot be used', async () => {
    const directory = await makeDirectory();
    const file = join(directory, 'x.yaml');
    const message = (bytesMax = 1000): string | undefined =>
      readDocument(file, bytesMax).problems[0]?.message;
    expect(message()).toBe('the file does not exist');
    await writeFile(file, Buffer.from([0x61, 0xff]));
    expect(message()).toBe('the file is not valid UTF-8');
    await writeFile(file, 'a: 12345');
    expect(message(4)).toContain('at most 4');
    expect(readDocument(directory, 10_000_000).problems[0]?.message).toContain('directory');
  });
});
