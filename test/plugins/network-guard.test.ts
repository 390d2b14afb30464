/** The check of addresses, in both languages that plugins use it in. Nothing leaves this machine. */
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  classify,
  isNamed,
  mayGetHeaders,
  resolveChecked,
  type Guard,
} from '../../plugins/lib/network-guard.ts';
import { startWebServer } from '../support/web-server.ts';

const libRoot = join(import.meta.dirname, '../../plugins/lib');
const open = [
  '8.8.8.8',
  '1.1.1.1',
  '172.15.255.255',
  '172.32.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '223.255.255.255',
  '2606:4700::1111',
  '2a00:1450:4001::1',
];
const inside = [
  '127.0.0.1',
  '127.255.255.255',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '100.64.0.1',
  '::1',
  '0:0:0:0:0:0:0:1',
  'fc00::1',
  'fdff::1',
];
const never = [
  '0.0.0.0',
  '0.1.2.3',
  '169.254.169.254',
  '169.254.170.2',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:8.8.8.8',
  '::ffff:169.254.169.254',
  '::ffff:0:127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::8.8.8.8',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::1',
  '100::1',
  '2001::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '3fff::1',
  'fd00:ec2::254',
  'fd20:ce::254',
  'fe80::1',
  'fe80::1%lo',
  'fe80::1%25lo',
  'fec0::1',
  'ff02::1',
  '4000::1',
  // Only addresses from a resolver are classified; every other spelling is refused.
  'localhost',
  'localhost.',
  '127.1',
  '2130706433',
  '0x7f000001',
  '0177.0.0.1',
  '127.0.0.1.',
  ' 127.0.0.1',
  '',
];

let inPython: ReadonlyMap<string, string>;
let random: string[];

beforeAll(() => {
  random = makeAddresses(4000);
  const all = [...open, ...inside, ...never, ...random];
  const program = `
import json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, "../../sdk/python")
from network_guard import classify
print(json.dumps([classify(address) for address in json.load(sys.stdin)]))`;
  const { stdout, stderr } = spawnSync('python3', ['-c', program], {
    cwd: libRoot,
    input: JSON.stringify(all),
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  const kinds = JSON.parse(stdout) as string[];
  inPython = new Map(all.map((address, at) => [address, kinds[at] ?? '']));
});

describe('addresses', () => {
  test.each(open)('%s is public', (address) => {
    expect([classify(address), inPython.get(address)]).toEqual(['public', 'public']);
  });

  test.each(inside)('%s is private', (address) => {
    expect([classify(address), inPython.get(address)]).toEqual(['private', 'private']);
  });

  test.each(never)('%j is never reached', (address) => {
    expect([classify(address), inPython.get(address)]).toEqual(['forbidden', 'forbidden']);
  });

  test('are judged alike in both languages, also beside the edges of all ranges', () => {
    const differing = random.filter((address) => classify(address) !== inPython.get(address));
    expect(differing).toEqual([]);
  });
});

describe('names in Python', () => {
  test('are resolved once: the connection goes to the address that was checked', async () => {
    const server = await startWebServer((_request, response) => response.end('inside'));
    const result = askInPython(['127.0.0.1'], `http://rebind.invalid:${server.port}/`, true);
    expect(await result).toEqual({ status: 200, asked: 1 });
    expect(server.received[0]?.headers.host).toBe(`rebind.invalid:${server.port}`);
  });

  test.each([
    ['one inside', ['127.0.0.1'], false],
    ['one of several inside', ['8.8.8.8', '10.0.0.1'], false],
    ['a mapped form', ['::ffff:10.0.0.1'], true],
    ['a metadata service', ['169.254.169.254'], true],
  ])('are refused when they lead to %s', async (_, addresses, allowPrivate) => {
    const result = await askInPython(addresses, 'http://innocent.invalid/', allowPrivate);
    expect(result).toEqual({ refused: expect.stringContaining('must not be reached'), asked: 1 });
  });
});

describe('hosts that the operator names', () => {
  const guard = (allowHosts: string[], more: Partial<Guard> = {}): Guard => ({
    allowHosts,
    allowPrivate: false,
    ownOrigin: undefined,
    ...more,
  });

  test.each([
    ['a.test', 'https://a.test/', true, true],
    ['a.test', 'https://a.test:443/', true, true],
    ['a.test', 'http://a.test/', true, false],
    ['a.test', 'http://a.test:443/', false, false],
    ['a.test', 'https://a.test:8443/', false, false],
    ['a.test', 'http://a.test:8080/', false, false],
    ['a.test', 'https://a.test./', false, false],
    ['a.test', 'https://xa.test/', false, false],
    ['a.test:8080', 'http://a.test:8080/', true, true],
    ['a.test:8080', 'https://a.test:8080/', true, true],
    ['a.test:8080', 'https://a.test/', false, false],
    ['a.test:80', 'http://a.test/', true, true],
    ['a.test:443', 'https://a.test/', true, true],
    ['a.test:443', 'http://a.test:443/', true, false],
    ['A.TEST', 'https://a.test/', true, true],
    ['*.a.test', 'https://b.a.test/', true, true],
    ['*.a.test', 'http://b.a.test/', true, false],
    ['*.a.test', 'https://b.a.test:8443/', false, false],
    ['*.a.test:8443', 'https://c.b.a.test:8443/', true, true],
    ['*.a.test', 'https://a.test/', false, false],
    ['*.0.0.1', 'https://127.0.0.1/', false, false],
    ['[::1]:8080', 'http://[::1]:8080/', true, true],
    ['[::1]', 'http://[::1]/', true, false],
    ['[::1]', 'http://[::1]:8080/', false, false],
  ])('%s: %s is named %s and gets headers %s', (pattern, address, named, headers) => {
    const url = new URL(address);
    expect([isNamed(url, guard([pattern])), mayGetHeaders(url, guard([pattern]))]).toEqual([
      named,
      headers,
    ]);
  });

  test.each([
    ['https://a.test', 'https://a.test/x', true],
    ['https://a.test', 'http://a.test:443/', false],
    ['https://a.test', 'http://a.test/', false],
    ['http://a.test:8080', 'http://a.test:8080/', true],
    ['http://a.test:8080', 'https://a.test:8080/', false],
  ])('config.url at %s: %s is named and gets headers %s', (ownOrigin, address, expected) => {
    const own = guard([], { ownOrigin });
    const url = new URL(address);
    expect([isNamed(url, own), mayGetHeaders(url, own)]).toEqual([expected, expected]);
  });

  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://0177.1/',
    'http://0x7f.1/',
    'http://2130706433/',
    'http://0/',
    'http://0.0.0.0/',
    'http://[::]/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[64:ff9b::127.0.0.1]/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[fd00:ec2::254]/latest/meta-data/',
    'http://①②⑦.0.0.1/',
  ])('%s is refused although nothing has to be resolved', async (address) => {
    const refused = resolveChecked(new URL(address), guard([]), AbortSignal.timeout(5000));
    await expect(refused).rejects.toThrow('must not be reached');
  });
});

/**
 * Sends a request with a resolver that returns what an attacker would like, and no socket but to
 * this machine.
 */
function askInPython(addresses: string[], url: string, allowPrivate: boolean): Promise<unknown> {
  const program = `
import json, socket, sys
from urllib.parse import urlsplit
sys.dont_write_bytecode = True
sys.path.insert(0, "../../sdk/python")
given = json.load(sys.stdin)
asked = []
def resolve(host, port, *_, **__):
    asked.append(host)
    return [(socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
            for one in given["addresses"]]
socket.getaddrinfo = resolve
from ductile_plugin import Failure
from http_request import send
try:
    told = {"status": send("GET", urlsplit(given["url"]), {}, allow_private=given["allow"]).status}
except Failure as failure:
    told = {"refused": str(failure)}
print(json.dumps({**told, "asked": len(asked)}))`;
  const child = spawn('python3', ['-c', program], { cwd: libRoot });
  child.stdin.end(JSON.stringify({ addresses, url, allow: allowPrivate }));
  return json(child.stdout);
}

/** Addresses around the edges of the ranges and anywhere else, the same in every run. */
function makeAddresses(count: number): string[] {
  let seed = 18;
  const next = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return seed % below;
  };
  const firsts = [0, 10, 100, 127, 168, 169, 172, 192, 198, 203, 224, 240];
  const groups = ['::', '2001:', '2002:', '64:ff9b::', 'fc00:', 'fe80:', 'fd00:ec2:', '3fff:'];
  return Array.from({ length: count }, (_, at) => {
    if (at % 2 === 0) {
      const first = at % 4 === 0 ? next(256) : (firsts[next(firsts.length)] ?? 0);
      return [first, next(256), next(256), next(256)].join('.');
    }
    const group = groups[next(groups.length)] ?? '';
    const rest = `${next(65_536).toString(16)}:${next(65_536).toString(16)}`;
    if (at % 3 === 0) return `${next(65_536).toString(16)}:${next(65_536).toString(16)}::1`;
    return group.endsWith('::') ? `${group}${rest}` : `${group}${rest}::1`;
  });
}
