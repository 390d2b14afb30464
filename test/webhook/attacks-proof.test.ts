/** Invalid proofs: missing, changed, or of another body, webhook or tenant. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  mac,
  openAttackedService,
  type AttackedService,
  type Lines,
} from '../support/webhook-attacks.ts';
import { makeTenant } from '../support/tenants.ts';

const BODY = '{"id":"evt_1","message":"ping"}';
const endpoint = {
  path: '/static',
  plugin: 'echo',
  secret_ref: 'of_files',
  signature_header: 'X-Signature',
};

let at: AttackedService;
const secrets = new Map<string, string>();
beforeAll(async () => {
  at = await openAttackedService({
    // More of them fail than one source may.
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint], trusted_proxies: ['127.0.0.1'] },
    tokens: [{ name: 'of_files', key: 'a-secret-of-the-files', scopes: [] }],
    plugins: { echo: { shared: true } },
  });
  secrets.set('static', 'a-secret-of-the-files');
  const echo = { plugin: 'echo' };
  secrets.set('gh', await at.open('gh', { ...echo, auth_mode: 'github' }));
  secrets.set('other', await at.open('other', { ...echo, auth_mode: 'github' }));
  secrets.set('std', await at.open('std', { ...echo, auth_mode: 'standard-webhooks' }));
  const base64 = { auth_mode: 'hmac', hmac_header: 'X-Sig', hmac_encoding: 'base64' };
  secrets.set('b64', await at.open('b64', { ...echo, ...base64, hmac_sig_prefix: '' }));
  secrets.set('bearer', await at.open('bearer', echo));
  secrets.set('gitlab', await at.open('gitlab', { ...echo, auth_mode: 'gitlab' }));
});
afterAll(() => at.api.close());

function secretOf(id: string): string {
  return secrets.get(id) ?? '';
}

/** The current key of a sender, and its header. */
const schemes = {
  gh: ['x-hub-signature-256', 'sha256=', () => mac(secretOf('gh'), BODY, 'hex')],
  static: ['x-signature', 'sha256=', () => mac(secretOf('static'), BODY, 'hex')],
  b64: ['x-sig', '', () => mac(secretOf('b64'), BODY, 'base64')],
  std: ['webhook-signature', 'v1,', () => standard(secretOf('std'), BODY)],
  bearer: ['authorization', 'Bearer ', () => secretOf('bearer')],
  gitlab: ['x-gitlab-token', '', () => secretOf('gitlab')],
} as const;
type Name = keyof typeof schemes;
const names = Object.keys(schemes) as Name[];
const signing = names.filter((name) => name !== 'bearer' && name !== 'gitlab');

const STAMP = String(Math.floor(Date.now() / 1000));

function standard(secret: string, body: string): string {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  return mac(key, `msg_1.${STAMP}.${body}`, 'base64');
}

function around(name: Name): Lines {
  if (name !== 'std') return [];
  return [
    ['webhook-id', 'msg_1'],
    ['webhook-timestamp', STAMP],
  ];
}

const refusals = {
  static: [403, '{"error":"forbidden"}\n'],
  managed: [401, '{"error":"unauthorized"}\n'],
} as const;

async function refused(name: Name, proof: Lines, body: string | Buffer = BODY): Promise<void> {
  const path = name === 'static' ? '/static' : `/hooks/${name}`;
  const response = await at.post(path, [...around(name), ...proof], body);
  const expected = refusals[name === 'static' ? 'static' : 'managed'];
  expect([response.status, response.text], `${name} ${JSON.stringify(proof)}`).toEqual(expected);
}

/** Wrong spellings of a proof; the proof itself follows its prefix. */
function spellings(lead: string, proof: string): readonly (readonly [string, string])[] {
  const isHex = /^[\da-f]{64}$/.test(proof);
  const bytes = Buffer.from(proof, isHex ? 'hex' : 'base64');
  const flipped = `${proof.startsWith('a') ? 'b' : 'a'}${proof.slice(1)}`;
  return [
    ['2 empty', ''],
    ['2 only its lead', lead],
    ['3 none', 'none'],
    ['3 none behind the lead', `${lead}none`],
    ['3 another tag', `sha1=${proof}`],
    ['3 another tag of our kind', `v0,${proof}`],
    ['4 cut', `${lead}${proof.slice(0, -1)}`],
    ['4 half', `${lead}${proof.slice(0, proof.length / 2)}`],
    ['4 longer', `${lead}${proof}0`],
    ['4 twice as long', `${lead}${proof}${proof}`],
    ['5 upper case', `${lead}${proof.toUpperCase()}`],
    ['5 the other encoding', `${lead}${bytes.toString(isHex ? 'base64' : 'hex')}`],
    ['5 base64url', `${lead}${bytes.toString('base64url')}=`],
    ['5 bytes that are no text', `${lead}\u00e9\u00ff${proof.slice(2)}`],
    ['7 one character', `${lead}${flipped}`],
    ['8 two in one', `${lead}${proof}, ${lead}${flipped}`],
  ];
}

describe.each(names)('%s', (name) => {
  const [header, lead, prove] = schemes[name];

  test('1 nothing, 2 to 5 and 7 any other spelling, 8 two headers', async () => {
    await at.comesToNothing(async () => {
      await refused(name, []);
      for (const [, spelling] of spellings(lead, prove())) {
        if (spelling !== `${lead}${prove()}`) await refused(name, [[header, spelling]]);
      }
      const good: Lines = [[header, `${lead}${prove()}`]];
      await refused(name, [...good, ...good]);
      await refused(name, [...good, [header, `${lead}wrong`]]);
      await refused(name, [[header, `${lead}wrong`], ...good]);
    });
  });

  test('9 a thousand are not tried', async () => {
    const one = `${lead}${prove()}`;
    await at.comesToNothing(async () => {
      await refused(name, [[header, Array.from({ length: 9 }, () => `${lead}x`).join(' ')]]);
      await refused(name, [[header, Array.from({ length: 1000 }, () => 'v1,x').join(' ')]]);
      const path = name === 'static' ? '/static' : `/hooks/${name}`;
      const many = Array.from({ length: 1000 }, () => one).join(' ');
      expect((await at.post(path, [[header, many]], BODY)).status).toBe(431);
    });
  });

  test('16 the proof of another webhook', async () => {
    const other = secretOf('other');
    const proofs = [mac(other, BODY, 'hex'), mac(other, BODY, 'base64'), other];
    await at.comesToNothing(async () => {
      for (const proof of proofs) await refused(name, [[header, `${lead}${proof}`]]);
    });
  });
});

describe.each(signing)('a signature of %s', (name) => {
  const [header, lead, prove] = schemes[name];
  const others: readonly (readonly [string, string | Buffer])[] = [
    ['6 written anew', JSON.stringify(JSON.parse(BODY), null, 1)],
    ['7 with one space more', `${BODY} `],
    ['7 with a line end', `${BODY}\n`],
    ['7 with one byte changed', BODY.replace('ping', 'pong')],
    ['7 in another charset', Buffer.from(BODY, 'utf16le')],
    ['7 with a byte order mark', `\uFEFF${BODY}`],
    ['7 cut short', BODY.slice(0, -1)],
    ['7 not there', ''],
  ];
  test.each(others)("doesn't prove it %s", async (_, body) => {
    await at.comesToNothing(() => refused(name, [[header, `${lead}${prove()}`]], body));
  });

  test('is good as it is', async () => {
    const path = name === 'static' ? '/static' : `/hooks/${name}`;
    const lines: Lines = [...around(name), [header, `${lead}${prove()}`]];
    expect((await at.post(path, lines, BODY)).status).toBe(202);
  });
});

const form = ['content-type', 'application/x-www-form-urlencoded'] as const;

test('7 what was signed, cut at another place', async () => {
  const general = async (id: string, payload: string): Promise<string> =>
    await at.open(id, {
      plugin: 'echo',
      auth_mode: 'signed',
      signed: { header: 'X-Sig', payload },
    });
  const behind = mac(await general('behind', '{body}.{header:X-Id}'), 'n=1.5.id7', 'hex');
  const address = 'http://hooks.example/hooks/address';
  const beside = mac(await general('address', '{url}{body}'), `${address}?k=vn=15&to=b`, 'hex');
  const found = { hmac_sig_regex: 'v1=([a-f0-9]+)', hmac_payload_prefix_regex: 't=([^,]+)' };
  const entry = { plugin: 'echo', auth_mode: 'hmac', hmac_header: 'X-Sig', ...found };
  const before = mac(await at.open('found', entry), '5.n=1.5', 'hex');
  const send = async (path: string, lines: Lines, body: string): Promise<number> =>
    (await at.post(`/hooks/${path}`, [form, ...lines], body)).status;
  const sig = (id: string, proof: string): Lines => [
    ['x-sig', proof],
    ['x-id', id],
  ];
  expect(await send('behind', sig('id7', behind), 'n=1.5')).toBe(202);
  expect(await send('found', [['x-sig', `t=5,v1=${before}`]], 'n=1.5')).toBe(202);
  await at.comesToNothing(async () => {
    expect(await send('behind', sig('5.id7', behind), 'n=1')).toBe(401);
    expect(await send('address?k=vn=15&', [['x-sig', beside]], 'to=b')).toBe(401);
    expect(await send('found', [['x-sig', `t=5.n=1,v1=${before}`]], '5')).toBe(401);
  });
});

test('16 the global token is none of a webhook that has its own, nor of the API', async () => {
  const rotated = await at.api.ask('/webhooks/bearer/rotate', { body: '{}' });
  const globalToken = secretOf('bearer');
  await at.comesToNothing(async () => {
    await refused('bearer', [['authorization', `Bearer ${globalToken}`]]);
    const reply = await at.api.ask('/jobs', { token: globalToken });
    expect(reply.status).toBe(401);
    const asOwner = await at.api.ask('/jobs', { token: String(rotated.body['secret']) });
    expect(asOwner.status).toBe(401);
  });
});

test('17 the secret of another tenant, whose webhook cannot be seen either', async () => {
  const [ann, bob] = [await makeTenant(at.api), await makeTenant(at.api)];
  const entry = { title: 'T', plugin: 'echo', auth_mode: 'github' };
  const anns = await ann.post('/webhooks', { ...entry, id: 'of-ann' });
  const bobs = await bob.post('/webhooks', { ...entry, id: 'of-bob' });
  const ofAnn = String(anns.body['id']);
  const prove = (secret: unknown): Lines => [
    ['x-hub-signature-256', `sha256=${mac(String(secret), BODY, 'hex')}`],
  ];
  await at.comesToNothing(async () => {
    for (const secret of [bobs.body['secret'], secretOf('gh')]) {
      expect((await at.post(`/hooks/${ofAnn}`, prove(secret), BODY)).status).toBe(401);
    }
    await refused('gh', prove(anns.body['secret']));
  });
  for (const tenant of [ann, bob]) {
    for (const path of ['/jobs', '/runs', `/signals?source=webhook:${ofAnn}`]) {
      const [rows] = Object.values((await tenant.ask(path)).body);
      expect(rows).toEqual([]);
    }
  }
  expect((await bob.ask(`/webhooks/${ofAnn}`)).status).toBe(404);
});
