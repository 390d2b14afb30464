/**
 * A number that a double can't hold, kept as it was written: 12345678901234567890, 1e400 or
 * 0.1234567890123456789. `JSON.stringify` writes it unchanged. Every other number is an ordinary one.
 */
export class ExactNumber {
  readonly text: string;

  /** `text` is a number in JSON. */
  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    return rawJson(this.text);
  }

  toString(): string {
    return this.text;
  }
}

/** TypeScript doesn't know it yet. A browser that doesn't either shows the number as a text. */
const { rawJSON: rawJson = String } = JSON as { readonly rawJSON?: (text: string) => unknown };

const NUMBER = /^(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/** Whether a text is a number in JSON. */
export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/** Whether a number is exact as a double because it has 15 digits at most and no exponent. */
export function isShort(text: string): boolean {
  return text.length <= DIGITS_EXACT && !text.includes('e') && !text.includes('E');
}

const DIGITS_EXACT = 15;

/** Whether the double that JSON.parse makes of a number in JSON is written as the same number again. */
export function isExactText(text: string): boolean {
  if (isShort(text)) return true;
  const value = Number(text);
  const written = String(value);
  if (written === text) return true;
  return Number.isFinite(value) && compareDecimals(toDecimal(text), toDecimal(written)) === 0;
}

/** Less than zero when `a` is the smaller one, zero when they are equal; exact for all numbers. */
export function compareNumbers(a: number | ExactNumber, b: number | ExactNumber): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return compareDecimals(toDecimal(String(a)), toDecimal(String(b)));
}

/** The whole number that it is, if it is one and is not absurdly long. */
export function toBigInt({ text }: ExactNumber): bigint | undefined {
  const { sign, digits, exponent } = toDecimal(text);
  if (exponent < 0n || exponent > BigInt(EXPONENT_MAX)) return undefined;
  return BigInt(digits + '0'.repeat(Number(exponent))) * BigInt(sign);
}

/** Powers of ten that are written out; what is larger is compared by its exponent alone. */
const EXPONENT_MAX = 400;

/** `sign` × 0.`digits` × 10^(`digits.length` + `exponent`), without zeros around the digits. */
interface Decimal {
  readonly sign: -1 | 0 | 1;
  readonly digits: string;
  readonly exponent: bigint;
}

function toDecimal(text: string): Decimal {
  const [, minus = '', whole = '', fraction = '', power = '0'] = NUMBER.exec(text) ?? [];
  const written = `${whole}${fraction}`;
  let from = 0;
  while (written[from] === '0') from += 1;
  let to = written.length;
  while (to > from && written[to - 1] === '0') to -= 1;
  if (from === to) return { sign: 0, digits: '', exponent: 0n };
  const exponent = BigInt(power) - BigInt(fraction.length) + BigInt(written.length - to);
  return { sign: minus === '' ? 1 : -1, digits: written.slice(from, to), exponent };
}

function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.sign !== b.sign) return a.sign - b.sign;
  const size = a.exponent + BigInt(a.digits.length) - b.exponent - BigInt(b.digits.length);
  if (size !== 0n) return size > 0n ? a.sign : -a.sign;
  if (a.digits === b.digits) return 0;
  // Both begin at the same power of ten, so they are ordered like words.
  return a.digits > b.digits ? a.sign : -a.sign;
}
