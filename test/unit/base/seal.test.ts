import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { fingerprint, KEY_BYTES, makeMasterKey, seal, unseal } from '../../../src/base/seal.ts';

const key = makeMasterKey(Buffer.alloc(KEY_BYTES, 7));
const other = makeMasterKey(Buffer.alloc(KEY_BYTES, 8));

describe('sealing', () => {
  test.each(['', 'x', 'ünï ✓\n', 'a'.repeat(100_000)])('opens as it was: case %#', (clear) => {
    const sealed = seal(clear, 'credential a', key);
    expect(sealed.keyId).toBe(key.id);
    expect(unseal(sealed, 'credential a', key)).toBe(clear);
  });

  test('is never the same twice, and shows nothing of what is in it', () => {
    const texts = Array.from({ length: 50 }, () => seal('hunter2-hunter2', 'p', key).text);
    expect(new Set(texts).size).toBe(50);
    expect(texts.join()).not.toContain(Buffer.from('hunter2').toString('base64url').slice(0, 8));
  });

  test('opens for nothing else: another purpose, another key, one bit changed', () => {
    const sealed = seal('value', 'credential a', key);
    expect(() => unseal(sealed, 'credential b', key)).toThrow();
    expect(() => unseal(sealed, 'credential a', other)).toThrow();
    const bytes = sealed.text.split('');
    for (let at = 3; at < bytes.length; at += 7) {
      const changed = bytes.with(at, bytes[at] === 'A' ? 'B' : 'A').join('');
      if (changed === sealed.text) continue;
      expect(() => unseal({ ...sealed, text: changed }, 'credential a', key)).toThrow();
    }
    expect(() => unseal({ ...sealed, text: 'v0.a.b' }, 'credential a', key)).toThrow('not known');
    expect(() => unseal({ ...sealed, text: 'v1' }, 'credential a', key)).toThrow();
  });

  test('parts of two sealed texts do not make a third', () => {
    const [a, b] = [seal('one', 'p', key), seal('two', 'p', key)].map(({ text }) =>
      text.split('.'),
    );
    const mixed = ['v1', a?.[1], b?.[2]].join('.');
    expect(() => unseal({ keyId: key.id, text: mixed }, 'p', key)).toThrow();
  });

  test('a key is told by its id, which is not a part of it', () => {
    const secret = randomBytes(KEY_BYTES);
    const { id } = makeMasterKey(secret);
    expect(makeMasterKey(secret).id).toBe(id);
    expect(secret.toString('hex')).not.toContain(id);
    expect(() => makeMasterKey(secret.subarray(1))).toThrow('32 bytes');
  });

  test('a fingerprint is the same for the same value, purpose and key alone', () => {
    const print = fingerprint('value', 'p', key);
    expect(fingerprint('value', 'p', key)).toBe(print);
    const others = [
      fingerprint('valuf', 'p', key),
      fingerprint('value', 'q', key),
      fingerprint('value', 'p', other),
    ];
    expect(others).not.toContain(print);
  });
});
