import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  fingerprintSecret,
  isSealedUnbound,
  KEY_BYTES,
  makeMasterKey,
  sealText,
  unsealText,
} from '../../src/base/seal.ts';

const key = makeMasterKey(Buffer.alloc(KEY_BYTES, 7));
const other = makeMasterKey(Buffer.alloc(KEY_BYTES, 8));
const row = (name: string, ledger = 'root') => ({ ledger, row: name });

describe('sealing', () => {
  test.each(['', 'x', 'ünï ✓\n', 'a'.repeat(100_000)])(
    'unseals to the same text: case %#',
    (clear) => {
      const sealed = sealText(clear, row('credential a'), key);
      expect(sealed.keyId).toBe(key.id);
      expect(unsealText(sealed, row('credential a'), key)).toBe(clear);
    },
  );

  test('never gives the same text twice, and shows nothing of the clear text', () => {
    const texts = Array.from({ length: 50 }, () => sealText('hunter2-hunter2', row('p'), key).text);
    expect(new Set(texts).size).toBe(50);
    expect(texts.join()).not.toContain(Buffer.from('hunter2').toString('base64url').slice(0, 8));
  });

  test('fails to unseal for another purpose, with another key, or after one bit changed', () => {
    const sealed = sealText('value', row('credential a'), key);
    expect(() => unsealText(sealed, row('credential b'), key)).toThrow();
    expect(() => unsealText(sealed, row('credential a'), other)).toThrow();
    const bytes = sealed.text.split('');
    for (let at = 3; at < bytes.length; at += 7) {
      const changed = bytes.with(at, bytes[at] === 'A' ? 'B' : 'A').join('');
      if (changed === sealed.text) continue;
      expect(() => unsealText({ ...sealed, text: changed }, row('credential a'), key)).toThrow();
    }
    expect(() => unsealText({ ...sealed, text: 'v0.a.b' }, row('credential a'), key)).toThrow(
      'is unknown',
    );
    expect(() => unsealText({ ...sealed, text: 'v1' }, row('credential a'), key)).toThrow();
  });

  test('fails to unseal in another ledger', () => {
    const sealed = sealText('value', row('credential a', 'tenant one'), key);
    expect(unsealText(sealed, row('credential a', 'tenant one'), key)).toBe('value');
    for (const ledger of ['tenant two', 'root', 'tenant one credential a', '']) {
      expect(() => unsealText(sealed, row('credential a', ledger), key)).toThrow();
    }
    // Nor as what it isn't: the old scheme binds less.
    const renamed = { ...sealed, text: sealed.text.replace('v2.', 'v1.') };
    expect(() => unsealText(renamed, row('credential a', 'tenant two'), key)).toThrow();
    expect(isSealedUnbound(sealed)).toBe(false);
  });

  test('text that an earlier version sealed still opens', () => {
    const text = [
      'v1',
      'KQN3SL9GhoEc72RAI-VBpLSXytY1sdgUDNEGRAm19yB26nDuF4ODLaIOFXRQ06V7FCmwzDUsW33Flw3G',
      'H7v2JL65x9ZA6smjdbjiYnh02pz1I6Eay9EVuMykc1BbUf23374goyk',
    ].join('.');
    const sealed = { keyId: key.id, text };
    expect(isSealedUnbound(sealed)).toBe(true);
    expect(unsealText(sealed, row('credential a', 'tenant one'), key)).toBe('an old secret');
    expect(() => unsealText(sealed, row('credential b'), key)).toThrow();
  });

  test('parts of two sealed texts do not make a third', () => {
    const [a, b] = [sealText('one', row('p'), key), sealText('two', row('p'), key)].map(
      ({ text }) => text.split('.'),
    );
    const mixed = ['v2', a?.[1], b?.[2]].join('.');
    expect(() => unsealText({ keyId: key.id, text: mixed }, row('p'), key)).toThrow();
  });

  test('a key is identified by its id, which is not a part of it', () => {
    const secret = randomBytes(KEY_BYTES);
    const { id } = makeMasterKey(secret);
    expect(makeMasterKey(secret).id).toBe(id);
    expect(secret.toString('hex')).not.toContain(id);
    expect(() => makeMasterKey(secret.subarray(1))).toThrow('32 bytes');
  });

  test('a fingerprint is the same for the same value, purpose and key alone', () => {
    const print = fingerprintSecret('value', 'p', key);
    expect(fingerprintSecret('value', 'p', key)).toBe(print);
    const others = [
      fingerprintSecret('valuf', 'p', key),
      fingerprintSecret('value', 'q', key),
      fingerprintSecret('value', 'p', other),
    ];
    expect(others).not.toContain(print);
  });
});
