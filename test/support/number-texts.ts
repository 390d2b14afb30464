/** JSON numbers, mostly those that a double can't represent. */
import fc from 'fast-check';

const digit = (from: number) => fc.integer({ min: from, max: 9 }).map((value) => String(value));
const digits = (min: number, max: number) =>
  fc.string({ unit: digit(0), minLength: min, maxLength: max });

export const numberText = fc
  .record({
    sign: fc.constantFrom('', '-'),
    whole: fc.oneof(
      fc.constant('0'),
      fc.tuple(digit(1), digits(0, 40)).map((parts) => parts.join('')),
    ),
    fraction: fc.option(digits(1, 40), { nil: undefined }),
    exponent: fc.option(
      fc.tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), digits(1, 4)),
      { nil: undefined },
    ),
  })
  .map(({ sign, whole, fraction, exponent }) =>
    [sign, whole, fraction === undefined ? '' : `.${fraction}`, exponent?.join('') ?? ''].join(''),
  );

/** Normalizes the numbers of a JSON text, and removes white space. */
export function normalizeNumbers(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|\s+/g, (token) => {
    if (token.startsWith('"')) return JSON.stringify(JSON.parse(token));
    return token.trim() === '' ? '' : decimalOf(token);
  });
}

/** Lists the normalized numbers of a text outside of its strings, sorted as text. */
export function numbersIn(text: string): string[] {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g) ?? [];
  return tokens
    .filter((token) => !token.startsWith('"'))
    .map(decimalOf)
    .toSorted();
}

/** Normalizes a number by its digits, without the tested code. */
function decimalOf(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(token) ?? [];
  const bare = `${whole}${fraction}`.replace(/^0+/, '');
  const trimmed = bare.replace(/0+$/, '');
  if (trimmed === '') return '0';
  const power = Number(exponent) - fraction.length + bare.length - trimmed.length;
  return `${sign}${trimmed}e${power}`;
}
