/**
 * Returns the BLAKE3 hash (256 bits) of data in memory: configuration files and programs of plugins.
 * Faster implementations need WebAssembly or a native module. Loading one would cost every command of
 * the command line more time than the hashing itself.
 */
export function blake3(data: Uint8Array): string {
  const stack: Node[] = [];
  const chunks = Math.max(1, Math.ceil(data.length / CHUNK_BYTES));
  for (let index = 0; index < chunks; index += 1) {
    const chunk = data.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES);
    let node = chunkNode(chunk, index);
    if (index + 1 === chunks) return finish(stack, node);
    // Each zero bit at the end of the number of chunks so far means one more complete subtree.
    for (let total = index + 1; total % 2 === 0; total /= 2) {
      const left = stack.pop();
      if (left !== undefined) node = parentNode(left, node);
    }
    stack.push(node);
  }
  return '';
}

/** The last block of a chunk or of a parent, not compressed yet: the root needs one more flag. */
interface Node {
  readonly chaining: Uint32Array;
  readonly words: Uint32Array;
  readonly counter: number;
  readonly bytes: number;
  readonly flags: number;
}

const CHUNK_BYTES = 1024;
const BLOCK_BYTES = 64;
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;

const start = Uint32Array.of(
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19,
);
const permutation = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
/** For each round, the order of the block's words after that many permutations. */
const orders = [...Array(6).keys()].reduce<number[][]>(
  (rounds) => [...rounds, permutation.map((from) => rounds.at(-1)?.[from] ?? 0)],
  [[...permutation.keys()]],
);
/** The columns of the state, then its diagonals. */
const quarters = [
  [0, 4, 8, 12],
  [1, 5, 9, 13],
  [2, 6, 10, 14],
  [3, 7, 11, 15],
  [0, 5, 10, 15],
  [1, 6, 11, 12],
  [2, 7, 8, 13],
  [3, 4, 9, 14],
];
/** All mixing steps of one block: each has four indexes into the state, then two into the block. */
const mixes = Uint8Array.from(
  orders.flatMap((order) =>
    quarters.flatMap((places, index) => [
      ...places,
      order[2 * index] ?? 0,
      order[2 * index + 1] ?? 0,
    ]),
  ),
);

function chunkNode(chunk: Uint8Array, counter: number): Node {
  let chaining: Uint32Array = start;
  for (let at = 0; ; at += BLOCK_BYTES) {
    const block = chunk.subarray(at, at + BLOCK_BYTES);
    const flags = at === 0 ? CHUNK_START : 0;
    const node = { chaining, words: wordsOf(block), counter, bytes: block.length, flags };
    if (at + BLOCK_BYTES >= chunk.length) return { ...node, flags: flags | CHUNK_END };
    chaining = compress(node);
  }
}

function parentNode(left: Node, right: Node): Node {
  const words = new Uint32Array(16);
  words.set(compress(left), 0);
  words.set(compress(right), 8);
  return { chaining: start, words, counter: 0, bytes: BLOCK_BYTES, flags: PARENT };
}

function finish(stack: readonly Node[], last: Node): string {
  const root = stack.reduceRight((right, left) => parentNode(left, right), last);
  const words = compress({ ...root, flags: root.flags | ROOT });
  const bytes = Buffer.alloc(words.length * 4);
  for (const [index, word] of words.entries()) bytes.writeUInt32LE(word, index * 4);
  return bytes.toString('hex');
}

function wordsOf(block: Uint8Array): Uint32Array {
  const words = new Uint32Array(16);
  for (let at = 0; at < block.length; at += 1) {
    words[at >> 2] = (words[at >> 2] ?? 0) | ((block[at] ?? 0) << ((at & 3) * 8));
  }
  return words;
}

/** Shared by all calls, because only one block is compressed at a time and a program has many blocks. */
const state = new Int32Array(16);

function compress({ chaining, words, counter, bytes, flags }: Node): Uint32Array {
  state.set(chaining, 0);
  state.set(start.subarray(0, 4), 8);
  state[12] = counter;
  state[13] = counter / 2 ** 32;
  state[14] = bytes;
  state[15] = flags;
  for (let at = 0; at < mixes.length; at += 6) mix(words, at);
  const result = new Uint32Array(8);
  for (let index = 0; index < 8; index += 1) {
    result[index] = (state[index] ?? 0) ^ (state[index + 8] ?? 0);
  }
  return result;
}

function mix(words: Uint32Array, at: number): void {
  const a = mixes[at] ?? 0;
  const b = mixes[at + 1] ?? 0;
  const c = mixes[at + 2] ?? 0;
  const d = mixes[at + 3] ?? 0;
  let wordA = state[a] ?? 0;
  let wordB = state[b] ?? 0;
  let wordC = state[c] ?? 0;
  let wordD = state[d] ?? 0;
  wordA = (wordA + wordB + (words[mixes[at + 4] ?? 0] ?? 0)) | 0;
  wordD = rotate(wordD ^ wordA, 16);
  wordC = (wordC + wordD) | 0;
  wordB = rotate(wordB ^ wordC, 12);
  wordA = (wordA + wordB + (words[mixes[at + 5] ?? 0] ?? 0)) | 0;
  wordD = rotate(wordD ^ wordA, 8);
  wordC = (wordC + wordD) | 0;
  wordB = rotate(wordB ^ wordC, 7);
  state[a] = wordA;
  state[b] = wordB;
  state[c] = wordC;
  state[d] = wordD;
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
