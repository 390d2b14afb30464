import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { toEventRules } from '../../src/webhook/event-type.ts';
import { webhookEntrySchema, toWebhook } from '../../src/webhook/webhook.ts';
import { presets } from '../../src/webhook/verify/presets.ts';
import { verifyDelivery } from '../../src/webhook/verify/verify.ts';
import { AT, BODY, makeRequest, sign } from './support.ts';
import { STANDARD_SECRET } from './vectors.ts';

const base = { id: 'ci', title: 'CI' };
const agent = { ...base, mode: 'cron_task', prompt_template: 'See {{x}}', task_folder: 'ci' };
const signed = { ...base, plugin: 'echo', auth_mode: 'signed', hmac_secret: 's' };

const parse = (entry: object) => toWebhook(webhookEntrySchema.parse(entry));

/** Each fault as `key message`. */
function faultsOf(entry: object): string[] {
  const parsed = webhookEntrySchema.safeParse(entry);
  return (parsed.error?.issues ?? []).map(({ path, message }) => `${path.join('.')} ${message}`);
}

describe('a hook', () => {
  test('W-70 has the defaults of document 4', () => {
    expect(parse({ ...agent, description: null, provider: null, cli_parameters: [] })).toEqual({
      webhook: {
        id: 'ci',
        title: 'CI',
        description: '',
        enabled: true,
        target: {
          kind: 'agent',
          mode: 'cron_task',
          promptTemplate: 'See {{x}}',
          instruction: undefined,
          taskFolder: 'ci',
          overrides: {
            provider: undefined,
            model: undefined,
            reasoningEffort: undefined,
            cliParameters: [],
          },
          quiet: { start: undefined, end: undefined },
          quietAction: 'skip',
          timezone: undefined,
          dependency: undefined,
        },
        auth: {
          kind: 'token',
          header: 'authorization',
          lead: 'Bearer ',
          idHeaders: ['idempotency-key'],
        },
        replay: 'normal',
        eventRules: toEventRules({}),
        maxBodyBytes: limits.webhookBodyBytesMax,
        ratePerMinute: limits.webhookRateDefault,
        waitMs: 0,
      },
      secrets: [],
    });
  });

  test('keeps all that is said of an agent', () => {
    const { webhook: hook } = parse({
      ...agent,
      enabled: false,
      instruction: 'Look into it.',
      provider: 'codex',
      model: 'gpt-5',
      reasoning_effort: 'high',
      cli_parameters: ['--fast', ''],
      quiet_start: 21,
      quiet_end: 8,
      quiet_action: 'defer',
      timezone: 'Europe/Berlin',
      dependency: 'repo',
      rate_limit_per_minute: 1,
      max_body_bytes: 10,
    });
    expect(hook).toMatchObject({
      enabled: false,
      ratePerMinute: 1,
      maxBodyBytes: 10,
      target: {
        instruction: 'Look into it.',
        overrides: { provider: 'codex', model: 'gpt-5', cliParameters: ['--fast', ''] },
        quiet: { start: 21, end: 8 },
        quietAction: 'defer',
        timezone: 'Europe/Berlin',
        dependency: 'repo',
      },
    });
  });

  test.each([
    [{ plugin: 'echo' }, { kind: 'command', plugin: 'echo', command: 'handle' }],
    [
      { plugin: 'echo', command: 'poll' },
      { kind: 'command', plugin: 'echo', command: 'poll' },
    ],
    [{ pipeline: 'build' }, { kind: 'pipeline', pipeline: 'build' }],
    [{ signal: 'order.paid' }, { kind: 'signal', type: 'order.paid' }],
    [
      { mode: 'wake', prompt_template: 'x' },
      { kind: 'agent', mode: 'wake' },
    ],
  ])('%j starts its target', (target, expected) => {
    expect(parse({ ...base, ...target }).webhook.target).toMatchObject(expected);
  });

  test.each([
    [{}, 'plugin or one of pipeline, signal and mode is required'],
    [{ plugin: 'a', pipeline: 'b' }, 'pipeline and plugin exclude each other'],
    [{ pipeline: 'b', command: 'c' }, 'command is only for plugin'],
    [{ signal: 'Paid' }, 'signal must be lowercase words separated by dots, such as order.paid'],
    [{ plugin: 'a', prompt_template: 'x' }, 'prompt_template is only for mode'],
    [{ mode: 'wake' }, 'prompt_template is required'],
    [{ mode: 'cron_task', prompt_template: 'x' }, 'task_folder is required for mode cron_task'],
    [{ mode: 'wake', prompt_template: 'x', model: 'opus' }, 'model is only for mode cron_task'],
    [{ ...agent, task_folder: '../x' }, 'task_folder must be the name of one folder'],
    [{ ...agent, task_folder: '..' }, 'task_folder must be the name of one folder'],
    [{ ...agent, task_folder: '/x' }, 'task_folder must be the name of one folder'],
    [{ ...agent, instruction: 'Do {{x}}' }, 'instruction must not contain {{placeholders}}'],
    [{ ...agent, cli_parameters: ['--'] }, 'cli_parameters.0 must not be --'],
    [{ ...agent, dependency: '' }, 'dependency must not be blank'],
    [{ ...agent, quiet_start: 24 }, 'quiet_start '],
    [{ ...agent, timezone: 'Mars/Base' }, 'timezone is not a time zone'],
    [{ ...agent, mode: 'sleep' }, 'mode '],
    [{ ...agent, id: '../x' }, 'id must be lowercase letters, digits, - and _'],
    [{ ...agent, trigger_count: 1 }, ' Unrecognized key'],
    [{ ...agent, max_body_bytes: limits.webhookBodyBytesMax + 1 }, 'max_body_bytes '],
  ])('W-63 %j is refused by its key: %s', (entry, expected) => {
    expect(faultsOf({ ...base, ...entry })).toEqual([expect.stringContaining(expected)]);
  });
});

describe('its authentication', () => {
  const hook = { ...base, plugin: 'echo' };

  test('W-04 the generic HMAC takes its prefix from its algorithm', () => {
    const entry = { ...hook, auth_mode: 'hmac', hmac_secret: 's', hmac_header: 'X-Sig' };
    expect(parse(entry)).toMatchObject({
      webhook: { auth: { kind: 'hmac', header: 'x-sig', algorithm: 'sha256', prefix: 'sha256=' } },
      secrets: ['s'],
    });
    const sha1 = parse({ ...entry, hmac_algorithm: 'sha1' });
    expect(sha1.webhook.auth).toMatchObject({ prefix: 'sha1=' });
    const blank = { ...entry, hmac_sig_prefix: '', hmac_sig_regex: '' };
    expect(parse(blank).webhook.auth).toMatchObject({ prefix: '', signature: undefined });
  });

  test('the generic HMAC is found by its pattern (default: hexadecimal)', () => {
    const { webhook: made, secrets } = parse({
      ...hook,
      auth_mode: 'hmac',
      hmac_secret: 's',
      hmac_header: 'X-Sig',
      hmac_sig_regex: 'v1=([0-9a-f]+)',
    });
    const ask = (signature: string) =>
      verifyDelivery(made.auth, makeRequest({ 'x-sig': signature }), secrets, AT);
    expect(ask(`t=1,v1=${sign('s', BODY)}`)).toMatchObject({ kind: 'accepted' });
    expect(ask(`t=1,v1=${sign('other', BODY)}`)).toMatchObject({ kind: 'refused' });
    expect(ask(`t=1,v0=${sign('s', BODY)}`)).toMatchObject({ kind: 'refused' });
  });

  test('several secrets are good at once', () => {
    expect(parse({ ...hook, token: ['a', 'b'] }).secrets).toEqual(['a', 'b']);
    const github = parse({ ...hook, auth_mode: 'github', hmac_secret: 'credential:gh' });
    expect(github).toMatchObject({ webhook: { auth: presets.github }, secrets: ['credential:gh'] });
  });

  test('a secret of svix may be copied as it is shown', () => {
    const { webhook: made } = parse({ ...hook, auth_mode: 'svix', hmac_secret: STANDARD_SECRET });
    expect(made.auth).toEqual(presets.svix);
  });

  test('the general form says nothing that was not said', () => {
    const unsaid = { idHeaders: ['idempotency-key'], once: 'never' };
    const { auth } = parse({ ...signed, signed: { header: 'X-Sig' } }).webhook;
    expect(auth).toEqual({ ...presets.github, header: 'x-sig', prefix: '', ...unsaid });
    const [header, at] = ['X-T', '{header:X-T}'];
    const timed = { header, payload: `${at}.{body}`, timestamp: at, timestamp_unit: 's' };
    expect(parse({ ...signed, signed: timed }).webhook.auth).toMatchObject({
      timestamp: { unit: 's', toleranceMs: limits.webhookToleranceMs },
    });
  });

  test.each([
    ['hmac_algorithm', 'sha1'],
    ['hmac_encoding', 'hex'],
    ['hmac_sig_prefix', 'x'],
    ['hmac_sig_regex', '(x)'],
    ['hmac_payload_prefix_regex', '(x)'],
  ])('%s is only for the generic HMAC', (key, value) => {
    expect(faultsOf({ ...hook, [key]: value })).toEqual([`${key} is only for auth_mode hmac`]);
  });

  test('the time may stand directly behind the body, as HubSpot signs it', () => {
    const { webhook: made, secrets } = parse({
      ...signed,
      signed: {
        header: 'X-Sig',
        payload: '{method}{url}{body}{header:X-Time}',
        timestamp: '{header:X-Time}',
        timestamp_unit: 'ms',
      },
    });
    const ask = (url: string) => {
      const proof = sign('s', `POST${url}${BODY}${AT}`);
      const request = makeRequest({ 'x-sig': proof, 'x-time': `${AT}` }, BODY, url);
      return verifyDelivery(made.auth, request, secrets, AT);
    };
    expect(ask('https://a/hooks/h')).toMatchObject({ kind: 'accepted', timestampMs: AT });
    expect(ask('https://a/hooks/h?k=v')).toMatchObject({ reason: 'value_ambiguous' });
  });

  test('the general form can be what a preset is', () => {
    const { webhook: made, secrets } = parse({
      ...signed,
      signed: {
        header: 'X-Slack-Signature',
        prefix: 'v0=',
        payload: 'v0:{header:X-Slack-Request-Timestamp}:{body}',
        timestamp: '{header:X-Slack-Request-Timestamp}',
        tolerance: '1m',
      },
    });
    const request = makeRequest({
      'x-slack-request-timestamp': '1700000000',
      'x-slack-signature': `v0=${sign('s', `v0:1700000000:${BODY}`)}`,
    });
    expect(verifyDelivery(made.auth, request, secrets, AT + 60_000)).toMatchObject({
      kind: 'accepted',
    });
    expect(verifyDelivery(made.auth, request, secrets, AT + 61_000)).toMatchObject({
      reason: 'timestamp_old',
    });
  });

  const hmac = { auth_mode: 'hmac', hmac_secret: 's', hmac_header: 'x' };

  test.each([
    [{ auth_mode: 'basic' }, 'auth_mode '],
    [{ token: '' }, 'token.0 must not be blank'],
    [{ token: ' ' }, 'token.0 must not be blank'],
    [{ token: [] }, 'token '],
    [{ hmac_secret: '', auth_mode: 'github' }, 'hmac_secret.0 must not be blank'],
    [{ token: ['a', '${TOKEN}'] }, 'token.1 has a `${` that was not replaced'],
    [{ hmac_secret: 's' }, 'hmac_secret is not for auth_mode bearer'],
    [{ auth_mode: 'gitlab' }, 'token is required for auth_mode gitlab'],
    [{ auth_mode: 'github' }, 'hmac_secret is required for auth_mode github'],
    [{ auth_mode: 'github', hmac_secret: 's', hmac_header: 'x' }, 'hmac_header is only for'],
    [
      { auth_mode: 'github', hmac_secret: 's', delivery_header: 'x' },
      'delivery_header is predefined',
    ],
    [{ auth_mode: 'hmac', hmac_secret: 's' }, 'hmac_header is required for auth_mode hmac'],
    [{ auth_mode: 'hmac', hmac_header: 'x' }, 'hmac_secret is required for auth_mode hmac'],
    [{ ...hmac, hmac_algorithm: 'md5' }, 'hmac_algorithm '],
    [{ ...hmac, hmac_encoding: 'base32' }, 'hmac_encoding '],
    [{ ...hmac, hmac_header: 'x y' }, 'hmac_header must be the name of a header'],
    [{ ...hmac, hmac_sig_regex: 'v1=.*' }, 'hmac_sig_regex has no group'],
    [
      { ...hmac, hmac_payload_prefix_regex: '(?=x)(y)' },
      'hmac_payload_prefix_regex has a lookahead',
    ],
    [{ token: 'tökén' }, 'token has characters that a header cannot contain'],
    [{ token: 'token ' }, 'token has characters that a header cannot contain'],
    [
      { auth_mode: 'gitlab', token: 'to\nken' },
      'token has characters that a header cannot contain',
    ],
    [{ auth_mode: 'svix', hmac_secret: 'whsec_!' }, 'hmac_secret is not written in base64'],
    [{ auth_mode: 'svix', hmac_secret: 'whsec_' }, 'hmac_secret is not written in base64'],
    [{ auth_mode: 'signed', hmac_secret: 's' }, 'signed is required for auth_mode signed'],
    [{ signed: { header: 'x' } }, 'signed is only for auth_mode signed'],
  ])('W-04, W-07 %j is refused: %s', (entry, expected) => {
    expect(faultsOf({ ...hook, ...entry })).toEqual([expect.stringContaining(expected)]);
  });

  test.each([
    [{ payload: '{header:X-T}' }, 'signed.payload has no {body}'],
    [{ payload: '{header:X-T}{body}' }, 'signed.payload needs a separator'],
    [{ payload: '{body}{header:X-Id}' }, 'signed.payload needs a separator'],
    [{ payload: '{body}.{method}{header:X-Id}' }, 'signed.payload needs a separator'],
    [{ payload: '{body}{body}' }, 'signed.payload has {body} twice'],
    [{ payload: '{time}.{body}' }, 'signed.payload has the unknown part {time}'],
    [{ payload: '{{body}}' }, 'signed.payload has the unknown part {'],
    [{ payload: '{sig.t}.{body}' }, 'signed.separator is required for {sig.…}'],
    [{ timestamp: '{header:X-T}' }, 'signed.timestamp is not part of signed.payload'],
    [{ timestamp: '{body}' }, 'signed.timestamp must name a header'],
    [{ tolerance: '5m' }, 'signed.tolerance is only for signed.timestamp'],
    [{ key: 'hex' }, 'hmac_secret is not written in hex'],
  ])(
    "an authentication that the general form can't verify is refused: %j",
    (differences, expected) => {
      const entry = { ...signed, signed: { header: 'x', ...differences } };
      expect(faultsOf(entry)).toEqual([expect.stringContaining(expected)]);
    },
  );
});
