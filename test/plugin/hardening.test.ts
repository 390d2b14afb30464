/** The built spawner has what the linker can do against exploits; its ELF headers say so. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';

const file = join(
  resolve(import.meta.dirname, '../..'),
  `build/spawner-${process.platform}-${process.arch}`,
);

const TYPE_SHARED = 3;
const PT_DYNAMIC = 2;
const PT_GNU_STACK = 0x6474e551;
const PT_GNU_RELRO = 0x6474e552;
const [EXECUTABLE, WRITABLE] = [1, 2];
const DT_FLAGS = 30n;
const DT_FLAGS_1 = 0x6ffffffbn;
const DF_BIND_NOW = 8n;
const DF_1_NOW = 1n;
const DF_1_PIE = 0x08000000n;

interface Segment {
  readonly type: number;
  readonly flags: number;
  readonly offset: number;
  readonly size: number;
}

function readSegments(elf: Buffer): Segment[] {
  const [offset, size, count] = [
    Number(elf.readBigUInt64LE(32)),
    elf.readUInt16LE(54),
    elf.readUInt16LE(56),
  ];
  return Array.from({ length: count }, (_, index) => {
    const at = offset + index * size;
    return {
      type: elf.readUInt32LE(at),
      flags: elf.readUInt32LE(at + 4),
      offset: Number(elf.readBigUInt64LE(at + 8)),
      size: Number(elf.readBigUInt64LE(at + 32)),
    };
  });
}

function readDynamic(elf: Buffer, segments: readonly Segment[]): Map<bigint, bigint> {
  const { offset = 0, size = 0 } = segments.find(({ type }) => type === PT_DYNAMIC) ?? {};
  const tags = new Map<bigint, bigint>();
  for (let at = offset; at < offset + size; at += 16) {
    tags.set(elf.readBigUInt64LE(at), elf.readBigUInt64LE(at + 8));
  }
  return tags;
}

describe.skipIf(process.platform !== 'linux' || !existsSync(file))('the built spawner', () => {
  const elf = existsSync(file) ? readFileSync(file) : Buffer.alloc(0);

  test('is loaded at a random address', () => {
    expect(elf.subarray(0, 5).toString('latin1')).toBe('\x7fELF\x02');
    expect(elf.readUInt16LE(16)).toBe(TYPE_SHARED);
    const flags = readDynamic(elf, readSegments(elf)).get(DT_FLAGS_1) ?? 0n;
    expect(flags & DF_1_PIE).toBe(DF_1_PIE);
  });

  test('resolves all symbols at its start and then makes their table read-only', () => {
    const segments = readSegments(elf);
    const tags = readDynamic(elf, segments);
    expect(segments.map(({ type }) => type)).toContain(PT_GNU_RELRO);
    expect((tags.get(DT_FLAGS) ?? 0n) & DF_BIND_NOW).toBe(DF_BIND_NOW);
    expect((tags.get(DT_FLAGS_1) ?? 0n) & DF_1_NOW).toBe(DF_1_NOW);
  });

  test('has no memory that is both writable and executable, its stack included', () => {
    const segments = readSegments(elf);
    const stack = segments.find(({ type }) => type === PT_GNU_STACK);
    expect(stack?.flags).toBe(4 | WRITABLE);
    const both = EXECUTABLE | WRITABLE;
    expect(segments.filter(({ flags }) => (flags & both) === both)).toEqual([]);
  });
});
