/** The ways in which a plugin can misbehave, and the expected outcome of its attempt. */
import type { Reply } from '../../../src/plugin/protocol.ts';
import type { Deeds } from './languages.ts';

export interface Kind {
  /** The number in the list of kinds that docs/internals/proof.md has. */
  readonly kind: number;
  readonly what: string;
  readonly does: (deeds: Deeds) => readonly string[];
  readonly reply: Reply['kind'];
  /** In the message of a failure, or the result of a success. */
  readonly says?: RegExp;
  /** The failure is retryable; usually it is. */
  readonly retry?: boolean;
  /** Its request is larger than any pipe. */
  readonly isLarge?: boolean;
  /** It is stopped by its timeout, which is short. */
  readonly isSlow?: boolean;
  /** It starts other processes, none of which may remain. */
  readonly hasFamily?: boolean;
}

const OK = '{"status":"ok","result":"done"}';
const MIB = 1024 * 1024;

/** Prints these bytes after it has read its request. */
const prints =
  (...texts: readonly (string | Buffer)[]) =>
  (deeds: Deeds): string[] => [deeds.read, ...texts.map((text) => deeds.print(text))];

const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
const withEvent = (payload: string): string =>
  `{"status":"ok","result":"r","events":[{"type":"t","payload":${payload}}]}`;

const streams: readonly Kind[] = [
  {
    kind: 1,
    what: 'never reads',
    does: (d) => [d.hang],
    reply: 'timeout',
    isLarge: true,
    isSlow: true,
  },
  {
    kind: 1,
    what: 'answers without reading',
    does: (d) => [d.print(OK)],
    reply: 'ok',
    isLarge: true,
  },
  {
    kind: 2,
    what: 'closes stdin',
    does: (d) => [d.closeStdin, d.print(OK)],
    reply: 'ok',
    isLarge: true,
  },
  {
    kind: 3,
    what: 'exits before reading',
    does: (d) => [d.exit(0)],
    reply: 'protocol',
    says: /^stdout is empty/,
    isLarge: true,
  },
  {
    kind: 4,
    what: 'closes stdout',
    does: (d) => [d.read, d.closeStdout, d.exit(0)],
    reply: 'protocol',
    says: /empty/,
  },
  {
    kind: 5,
    what: 'prints nothing',
    does: (d) => [d.read, d.exit(0)],
    reply: 'protocol',
    says: /empty/,
  },
  {
    kind: 6,
    what: 'prints nothing and hangs',
    does: (d) => [d.read, d.hang],
    reply: 'timeout',
    isSlow: true,
  },
  {
    kind: 7,
    what: '100 MB to stdout',
    does: (d) => [d.read, d.flood(1, 100 * MIB), d.print(OK)],
    reply: 'protocol',
    says: /wrote more than/,
  },
  {
    kind: 8,
    what: '100 MB to stderr',
    does: (d) => [d.read, d.flood(2, 100 * MIB), d.print(OK)],
    reply: 'ok',
  },
  {
    kind: 9,
    what: 'a byte now and then',
    does: (d) => Array.from({ length: 40 }, () => [d.print('{'), d.pause(0.5)]).flat(),
    reply: 'timeout',
    isSlow: true,
  },
  {
    kind: 10,
    what: 'a line of 9 MB',
    does: (d) => [d.read, d.flood(1, 9 * MIB)],
    reply: 'protocol',
    says: /not one JSON object/,
  },
  { kind: 11, what: 'garbage behind its answer', does: prints(OK, 'garbage'), reply: 'protocol' },
  {
    kind: 12,
    what: 'a banner before its answer',
    does: prints('Welcome!\n', OK),
    reply: 'protocol',
  },
  { kind: 13, what: 'two answers', does: prints(`${OK}\n${OK}\n`), reply: 'protocol' },
  { kind: 14, what: 'half an answer', does: prints('{"status":"ok","res'), reply: 'protocol' },
  {
    kind: 15,
    what: 'no UTF-8',
    does: prints(Buffer.from('7b22ff227d', 'hex')),
    reply: 'protocol',
    says: /not valid UTF-8/,
  },
  {
    kind: 16,
    what: 'a character in two halves',
    does: (d) => [
      d.read,
      d.print('{"status":"ok","result":"na'),
      d.print(Buffer.from('c3', 'hex')),
      d.pause(0.05),
      d.print(Buffer.from('af7665227d', 'hex')),
    ],
    reply: 'ok',
    says: /^naïve$/,
  },
  {
    kind: 17,
    what: 'a byte order mark',
    does: prints(`\ufeff${OK}`),
    reply: 'protocol',
    says: /byte order mark/,
  },
  { kind: 17, what: 'NUL bytes', does: prints(`${OK}\0\0`), reply: 'protocol' },
  {
    kind: 18,
    what: 'a lone surrogate',
    does: prints('{"status":"ok","result":"\\ud800"}'),
    reply: 'protocol',
    says: /surrogate/,
  },
  {
    kind: 19,
    what: 'a thousand levels',
    does: prints(withEvent(deep(1000))),
    reply: 'protocol',
    says: /too deeply/,
  },
  {
    kind: 20,
    what: '__proto__',
    does: prints('{"status":"ok","result":"r","state_updates":{"__proto__":{"a":1}}}'),
    reply: 'protocol',
    says: /__proto__/,
  },
  {
    kind: 20,
    what: 'a key twice',
    does: prints('{"status":"error","status":"ok","result":"r"}'),
    reply: 'ok',
  },
  { kind: 21, what: '1e400', does: prints(withEvent('1e400')), reply: 'ok' },
  { kind: 21, what: 'NaN', does: prints(withEvent('NaN')), reply: 'protocol' },
  {
    kind: 38,
    what: 'names another job and tenant',
    does: prints('{"status":"ok","result":"r","job_id":"x","tenant":"y","attempt":9}'),
    reply: 'ok',
    says: /^r$/,
  },
  {
    kind: 43,
    what: 'an answer of another shape',
    does: prints('{"status":"ok","result":7}'),
    reply: 'protocol',
    says: /result must be text/,
  },
];

const ends: readonly Kind[] = [
  ...[1, 2, 64, 65, 75, 126, 127, 255].map((code): Kind => ({
    kind: 22,
    what: `exits with ${code}`,
    does: (d) => [d.read, d.exit(code)],
    reply: 'exit',
    says: new RegExp(`^exited with code ${code}`),
  })),
  {
    kind: 22,
    what: 'exits with 78',
    does: (d) => [d.read, d.exit(78)],
    reply: 'exit',
    retry: false,
  },
  ...['SIGSEGV', 'SIGABRT', 'SIGBUS'].map((signal): Kind => ({
    kind: 23,
    what: `dies of ${signal}`,
    does: (d) => [d.read, d.signalSelf(signal)],
    reply: 'signal',
    says: new RegExp(signal),
  })),
  {
    kind: 24,
    what: 'kills itself',
    does: (d) => [d.read, d.signalSelf('SIGKILL')],
    reply: 'signal',
    says: /SIGKILL/,
  },
  {
    kind: 25,
    what: 'ignores SIGTERM',
    does: (d) => [d.ignoreTerm, d.read, d.hang],
    reply: 'timeout',
    isSlow: true,
  },
  {
    kind: 26,
    what: 'answers while it is stopped',
    does: (d) => [d.read, d.printOnTerm(OK)],
    reply: 'timeout',
    isSlow: true,
  },
  {
    kind: 27,
    what: 'stops itself',
    does: (d) => [d.read, d.signalSelf('SIGSTOP')],
    reply: 'timeout',
    isSlow: true,
  },
  {
    kind: 28,
    what: 'a child that holds stdout',
    does: (d) => [d.read, d.children(1, 'in-group'), d.answerPids],
    reply: 'ok',
    hasFamily: true,
  },
  {
    kind: 29,
    what: 'a child in a session of its own',
    does: (d) => [d.read, d.children(1, 'own-session'), d.answerPids],
    reply: 'ok',
    hasFamily: true,
  },
  {
    kind: 30,
    what: 'a silent daemon',
    does: (d) => [d.read, d.children(1, 'silent-daemon'), d.answerPids],
    reply: 'ok',
    hasFamily: true,
  },
  {
    kind: 31,
    what: 'thirty children',
    does: (d) => [d.read, d.children(30, 'in-group'), d.answerPids],
    reply: 'ok',
    hasFamily: true,
  },
  {
    kind: 32,
    what: 'more memory than there is',
    does: (d) => [d.read, d.takeMemory],
    reply: 'exit',
    says: /^exited with code 1/,
  },
  { kind: 33, what: 'spins', does: (d) => [d.read, d.spin], reply: 'timeout', isSlow: true },
  {
    kind: 34,
    what: 'fills its directory',
    does: (d) => [d.read, d.litter(2000), d.print(OK)],
    reply: 'ok',
  },
  {
    kind: 35,
    what: 'tells its environment',
    does: (d) => [d.read, d.tellSetting],
    reply: 'ok',
    says: /^(?!.*CANARY)/s,
  },
  {
    kind: 37,
    what: 'looks for descriptors',
    does: (d) => [d.read, d.tellSetting],
    reply: 'ok',
    says: /^fds 0 1 2 (3 )?[^\d]/,
  },
  {
    kind: 39,
    what: 'escapes and false lines',
    does: (d) => [d.read, d.print('\u001b[2J\r\nlevel=error fake\u0007'), d.exit(3)],
    reply: 'exit',
    says: /^[^\p{Cc}]*$/u,
  },
  {
    kind: 44,
    what: 'answers after its time',
    does: (d) => [d.read, d.ignoreTerm, d.pause(0.6), d.print(OK), d.hang],
    reply: 'timeout',
    isSlow: true,
  },
];

export const kinds: readonly Kind[] = [...streams, ...ends];
