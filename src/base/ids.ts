import { randomFillSync } from 'node:crypto';

const pool = Buffer.allocUnsafe(8 * 1024);
let poolAt = pool.length;
let lastMs = 0;
let counter = 0;

/**
 * Makes a UUID of version 7. It starts with the time, so that ids of new rows are neighbours in their
 * index. Within one millisecond a counter keeps the ids of this process in order.
 */
export function makeId(nowMs: number = Date.now()): string {
  if (nowMs > lastMs) {
    lastMs = nowMs;
    counter = readRandom(2).readUInt16BE(0) & 0x7ff;
  } else {
    counter += 1;
    if (counter > 0xfff) {
      lastMs += 1;
      counter = 0;
    }
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const sequence = counter.toString(16).padStart(3, '0');
  const random = readRandom(8);
  random[0] = ((random[0] ?? 0) & 0x3f) | 0x80;
  const tail = random.toString('hex');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}

/** Makes a token that fences a claim: only its holder may close the claimed row. */
export function makeToken(): string {
  return readRandom(16).toString('hex');
}

function readRandom(bytes: number): Buffer {
  if (poolAt + bytes > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  poolAt += bytes;
  return Buffer.from(pool.subarray(poolAt - bytes, poolAt));
}
