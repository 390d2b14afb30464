import * as z from 'zod';
import { parseCredentialRef } from '../base/credential-ref.ts';
import { duration, flag, strictSection, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { createBearerScheme, type SingleScheme, type Scheme } from './verify/verify.ts';
import { webhookDefaults, defaultSignaturePrefix, type ReportField } from './target.ts';
import { algorithms, encodings, keyEncodings, parseKey, type KeyForm } from './verify/mac.ts';
import { parsePattern } from './verify/pattern.ts';
import {
  parsePayload,
  parsePayloadPart,
  type PayloadPart,
  type SignedScheme,
} from './verify/signed.ts';
import { presetNames, presets, type PresetName } from './verify/presets.ts';

export const authModes = ['bearer', 'hmac', 'signed', ...presetNames] as const;
export type AuthMode = (typeof authModes)[number];

/** `strict` refuses the same signed bytes under another delivery id. */
export const replayModes = ['normal', 'strict'] as const;
export type ReplayMode = (typeof replayModes)[number];

const secret = z
  .string()
  .regex(/\S/, 'must not be blank')
  .max(limits.tokenCharsMax)
  .refine((value) => !value.includes('${'), {
    error: 'has a `${` that was not replaced',
    params: { hint: 'Write the secret itself; placeholders are not replaced here.' },
  });

/** A secret, or several that are valid at the same time. */
const secrets = z
  .preprocess(
    (value) => (typeof value === 'string' ? [value] : value),
    z.array(secret).min(1).max(limits.webhookSecretsMax),
  )
  .optional();

/** The name of a header, in lower case. */
export const headerName = z
  .string()
  .max(100)
  .regex(/^[A-Za-z0-9_-]+$/, 'must be the name of a header')
  .transform((name) => name.toLowerCase());

const pattern = z.string().transform((value, context) => {
  const parsed = parsePattern(value);
  if (parsed.ok) return parsed.pattern;
  const { message, hint } = parsed;
  context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
  return z.NEVER;
});

const payload = z.string().transform((value, context) => {
  const parsed = parsePayload(value);
  if (parsed.ok) return parsed.parts;
  const { message, hint } = parsed;
  context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
  return z.NEVER;
});

const timestampPart = z.string().transform((value, context) => {
  const part = parsePayloadPart(/^\{(.*)\}$/.exec(value)?.[1] ?? '');
  if (part?.kind === 'header' || part?.kind === 'entry') return part;
  const message = 'must name a header or an entry of the signature';
  const hint = 'Write {header:X-Timestamp} or {sig.t}.';
  context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
  return z.NEVER;
});

export const timestampUnits = ['s', 'ms'] as const;

const signedFields = strictSection({
  header: headerName,
  separator: z.string().max(10).default(''),
  prefix: z.string().max(50).default(''),
  payload: payload.prefault('{body}'),
  algorithm: z.enum(algorithms).default('sha256'),
  encoding: z.enum(encodings).default('hex'),
  key: z.enum(keyEncodings).default('utf8'),
  key_prefix: z.string().max(50).default(''),
  timestamp: timestampPart.optional(),
  timestamp_unit: z.enum(timestampUnits).optional(),
  tolerance: duration({ minMs: 1000, maxMs: limits.webhookToleranceMsMax }).optional(),
  id_field: nonBlankText().max(100).optional(),
  unique_body: flag().default(false),
});

export const authFields = {
  auth_mode: z.enum(authModes).default('bearer'),
  token: secrets,
  hmac_secret: secrets,
  hmac_header: headerName.optional(),
  hmac_algorithm: z.enum(algorithms).optional(),
  hmac_encoding: z.enum(encodings).optional(),
  hmac_sig_prefix: z.string().max(50).optional(),
  hmac_sig_regex: blankable(pattern),
  hmac_payload_prefix_regex: blankable(pattern),
  hmac_tolerance: duration({ minMs: 0, maxMs: limits.webhookToleranceMsMax }).optional(),
  signed: signedFields.optional(),
  delivery_header: headerName.optional(),
  replay: z.enum(replayModes).default(webhookDefaults.replay),
};

/** Entries of the original program have empty text for a missing pattern. */
function blankable<T extends z.ZodType>(schema: T) {
  return z.preprocess((value) => (value === '' ? undefined : value), schema.optional());
}

type AuthFields = z.output<z.ZodObject<typeof authFields>>;

const hmacKeys = [
  'hmac_header',
  'hmac_algorithm',
  'hmac_encoding',
  'hmac_sig_prefix',
  'hmac_sig_regex',
  'hmac_payload_prefix_regex',
  'hmac_tolerance',
] as const;

/** The key under which an entry has its secrets. */
export function secretKeyOf(mode: AuthMode): 'token' | 'hmac_secret' {
  return usesToken(mode) ? 'token' : 'hmac_secret';
}

/** True if the mode compares a token. Other modes verify a signature. */
function usesToken(mode: AuthMode): boolean {
  return mode === 'bearer' || mode === 'gitlab';
}

/**
 * Reports contradictions between the keys of authentication, and settings that can never be
 * verified.
 */
export function checkAuth(fields: AuthFields, report: ReportField): void {
  const { auth_mode: mode, signed } = fields;
  const isPreset = Object.hasOwn(presets, mode);
  if (mode !== 'hmac') {
    for (const key of hmacKeys) {
      if (fields[key] !== undefined) report(key, 'is only for auth_mode hmac', 'Leave it out.');
    }
  } else if (fields.hmac_header === undefined) {
    report('hmac_header', 'is required for auth_mode hmac', 'Name the header with the signature.');
  }
  const isTimed = fields.hmac_payload_prefix_regex !== undefined;
  if (mode === 'hmac' && fields.hmac_tolerance !== undefined && !isTimed) {
    const hint = 'Leave it out, or set hmac_payload_prefix_regex to find the signed time.';
    report('hmac_tolerance', 'is only for hmac_payload_prefix_regex', hint);
  }
  if (mode !== 'signed' && signed !== undefined) {
    report('signed', 'is only for auth_mode signed', 'Leave it out.');
  }
  if (mode === 'signed' && signed === undefined) {
    report('signed', 'is required for auth_mode signed', 'Set header and payload under it.');
  }
  if (isPreset && fields.delivery_header !== undefined) {
    report('delivery_header', `is predefined for auth_mode ${mode}`, 'Leave it out.');
  }
  if (signed !== undefined) checkSigned(signed, report);
  if (fields.replay === 'strict' && usesToken(mode)) {
    report(
      'replay',
      `strict is not for auth_mode ${mode}, which signs nothing: a copy contains the token itself`,
      'Leave it out, or use an auth_mode with a signature.',
    );
  }
  checkSecrets(fields, report);
}

function checkSigned(signed: NonNullable<AuthFields['signed']>, report: ReportField): void {
  const { timestamp, payload: parts, separator } = signed;
  const isTime = (part: PayloadPart): boolean =>
    part.kind === timestamp?.kind && 'name' in part && part.name === timestamp.name;
  if (timestamp !== undefined && !parts.some(isTime)) {
    report(
      'signed.timestamp',
      'is not part of signed.payload, so an attacker could change it',
      'Add it there, or leave it out.',
    );
  }
  const behind = parts[parts.findIndex(({ kind }) => kind === 'body') + 1];
  if (behind !== undefined && 'name' in behind && !isTime(behind)) {
    report(
      'signed.payload',
      'needs a separator after {body}, so that bytes cannot move into the next part',
      'Only the time of signed.timestamp may directly follow {body}.',
    );
  }
  for (const key of ['timestamp_unit', 'tolerance'] as const) {
    if (timestamp !== undefined || signed[key] === undefined) continue;
    report(`signed.${key}`, 'is only for signed.timestamp', 'Set signed.timestamp, too.');
  }
  if (separator === '' && parts.some(({ kind }) => kind === 'entry')) {
    report('signed.separator', 'is required for {sig.…}', 'Set the separator between the entries.');
  }
}

function checkSecrets(fields: AuthFields, report: ReportField): void {
  const { auth_mode: mode } = fields;
  const [key, other] = usesToken(mode)
    ? (['token', 'hmac_secret'] as const)
    : (['hmac_secret', 'token'] as const);
  if (fields[other] !== undefined) {
    report(other, `is not for auth_mode ${mode}`, `Write it as ${key}.`);
  }
  const own = fields[key];
  if (own === undefined) {
    if (mode !== 'bearer')
      report(key, `is required for auth_mode ${mode}`, 'Set the secret of the deliveries.');
    return;
  }
  const plain = own.filter((one) => parseCredentialRef(one) === undefined);
  const form = keyForm(fields);
  if (plain.some((one) => parseKey(one, form) === undefined))
    report(key, `is not written in ${form.encoding}`, 'Copy it as the sender shows it.');
  if (usesToken(mode) && !plain.every((one) => headerText.test(one)))
    report(
      key,
      'has characters that a header cannot contain',
      'Use printable ASCII without spaces at the ends.',
    );
}

/** Other characters arrive in an unknown encoding, and HTTP drops spaces at the ends. */
const headerText = /^[!-~](?:[ -~]*[!-~])?$/;

function keyForm({ auth_mode: mode, signed }: AuthFields): KeyForm {
  if (mode === 'signed' && signed !== undefined) {
    return { encoding: signed.key, prefix: signed.key_prefix };
  }
  const isStandard = mode === 'standard-webhooks' || mode === 'svix';
  return isStandard ? { encoding: 'base64', prefix: 'whsec_' } : { encoding: 'utf8', prefix: '' };
}

/** Returns the secrets as written: the text itself, or `credential:NAME`. */
export function secretsOf(fields: AuthFields): readonly string[] {
  return fields[secretKeyOf(fields.auth_mode)] ?? [];
}

export function toScheme(fields: AuthFields): Scheme {
  const scheme = toNormalScheme(fields);
  if (fields.replay !== 'strict') return scheme;
  if (scheme.kind !== 'any') return toStrict(scheme);
  const [first, ...others] = scheme.of;
  return { ...scheme, of: [toStrict(first), ...others.map(toStrict)] };
}

function toStrict(scheme: SingleScheme): SingleScheme {
  return scheme.kind === 'token' ? scheme : { ...scheme, once: 'always' };
}

function toNormalScheme(fields: AuthFields): Scheme {
  const { auth_mode: mode, delivery_header: idHeader = 'idempotency-key' } = fields;
  if (mode === 'bearer') return createBearerScheme([idHeader]);
  if (mode === 'signed') return toSigned(fields, idHeader);
  if (mode !== 'hmac') return presets[mode satisfies PresetName];
  const algorithm = fields.hmac_algorithm ?? webhookDefaults.algorithm;
  return {
    kind: 'hmac',
    header: fields.hmac_header ?? '',
    algorithm,
    encoding: fields.hmac_encoding ?? webhookDefaults.encoding,
    prefix: fields.hmac_sig_prefix ?? defaultSignaturePrefix(algorithm),
    signature: fields.hmac_sig_regex,
    payloadPrefix: fields.hmac_payload_prefix_regex,
    toleranceMs: fields.hmac_tolerance,
    idHeaders: [idHeader],
    once: 'never',
  };
}

function toSigned({ signed }: AuthFields, idHeader: string): SignedScheme {
  if (signed === undefined) throw new TypeError('a webhook without its scheme was not checked');
  const { timestamp: part, timestamp_unit: unit = 's', tolerance } = signed;
  const toleranceMs = tolerance ?? limits.webhookToleranceMs;
  return {
    kind: 'signed',
    header: signed.header,
    separator: signed.separator,
    prefix: signed.prefix,
    payload: signed.payload,
    algorithm: signed.algorithm,
    encoding: signed.encoding,
    key: { encoding: signed.key, prefix: signed.key_prefix },
    timestamp: part === undefined ? undefined : { part, unit, toleranceMs },
    idHeaders: [idHeader],
    idField: signed.id_field,
    once: signed.unique_body ? 'always' : 'never',
    hasChallenge: false,
  };
}
