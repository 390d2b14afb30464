import { BlockList, isIP } from 'node:net';
import * as z from 'zod';
import { count, flag, strictSection, nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { checkOrders } from '../webhook/check.ts';
import { makeEndpointScheme } from '../webhook/verify/hmac.ts';
import { checkEventFields, eventFields, toEventRules } from '../webhook/event-type.ts';
import { checkRespond, respondFields, waitMsOf } from '../webhook/webhook.ts';
import type { ReportField } from '../webhook/target.ts';
import type { WebhooksConfig } from './config.ts';
import type { KeyPath } from './document.ts';
import { commandName, pluginName } from './fields.ts';

const UNITS: Readonly<Record<string, number>> = { B: 1, K: 1024, M: 1024 * 1024 };

/** Accepts bytes, or a unit: `1MB`, `1 MiB` and `1M` are the same. */
const bodySize = z.preprocess(
  (value) => {
    const match =
      typeof value === 'string' ? /^(\d{1,9})\s*(?:(K|M)(?:i?B)?|B)$/i.exec(value) : null;
    if (match === null) return value;
    return Number(match[1]) * (UNITS[(match[2] ?? 'B').toUpperCase()] ?? 1);
  },
  count(1, limits.webhookBodyBytesMax),
);

/** The plugin for agents, which is part of the program. */
export const DEFAULT_AGENT = 'agent';

const endpoint = strictSection({
  path: z
    .string()
    .max(limits.webhookPathCharsMax)
    .regex(/^\/[A-Za-z0-9._~/-]*[A-Za-z0-9._~-]$/, 'must be a path such as /hook/github')
    .refine((path) => !/^\/(?:healthz?$|hooks\/)/.test(path), 'is reserved'),
  plugin: pluginName(),
  command: commandName().default('handle'),
  secret_ref: nonBlankText(),
  signature_header: z
    .string()
    .max(100)
    .regex(/^[A-Za-z0-9_-]+$/, 'must be the name of a header'),
  max_body_size: bodySize.default(limits.webhookBodyBytesMax),
  ...respondFields,
  ...eventFields,
});

/** The keys of `webhooks`. */
export const webhooksSchema = strictSection({
  enabled: flag().optional(),
  listen: nonBlankText().optional(),
  order: z.enum(checkOrders).default('strict'),
  agent: pluginName().default(DEFAULT_AGENT),
  trusted_proxies: z.array(nonBlankText()).default([]),
  public_url: z
    .string()
    .regex(/^https?:\/\/[^\s/?#]+$/, 'must be a scheme and a host, as in https://hooks.example.org')
    .optional(),
  endpoints: z.array(endpoint).default([]),
});

interface WebhooksContext {
  readonly placeOf: (path: KeyPath) => string;
  readonly report: (path: KeyPath, message: string, hint?: string) => void;
  readonly readAddress: (
    listen: string,
    path: KeyPath,
  ) => { readonly host: string; readonly port: number };
  /** The keys of `tokens.yaml`, by their names. */
  readonly tokens: ReadonlyMap<string, string>;
}

export function buildWebhooks(
  parsed: z.output<typeof webhooksSchema>,
  { placeOf, report, readAddress, tokens }: WebhooksContext,
): WebhooksConfig {
  const paths = new Set<string>();
  const endpoints = parsed.endpoints.map((entry, index) => {
    const path = ['webhooks', 'endpoints', index];
    if (paths.has(entry.path)) report([...path, 'path'], 'is taken by another endpoint');
    paths.add(entry.path);
    const auth = makeEndpointScheme(entry.signature_header);
    const reportKey: ReportField = (key, message, hint) => report([...path, key], message, hint);
    checkRespond(entry, reportKey);
    checkEventFields(entry, auth, reportKey);
    return {
      path: entry.path,
      plugin: entry.plugin,
      command: entry.command,
      secretRef: entry.secret_ref,
      secret: tokens.get(entry.secret_ref),
      auth,
      eventRules: toEventRules(entry),
      maxBodyBytes: entry.max_body_size,
      waitMs: waitMsOf(entry),
      place: placeOf(path),
    };
  });
  checkProxies(parsed.trusted_proxies, (index, message, hint) =>
    report(['webhooks', 'trusted_proxies', index], message, hint),
  );
  return {
    enabled: parsed.enabled ?? (parsed.listen !== undefined || endpoints.length > 0),
    ...readAddress(parsed.listen ?? '127.0.0.1:8081', ['webhooks', 'listen']),
    order: parsed.order,
    agent: parsed.agent,
    trustedProxies: parsed.trusted_proxies,
    publicUrl: parsed.public_url,
    endpoints,
  };
}

/** Reports each entry of `trusted_proxies` that is neither an address nor a subnet. */
export function checkProxies(
  proxies: readonly string[],
  report: (index: number, message: string, hint: string) => void,
): void {
  for (const [index, proxy] of proxies.entries()) {
    if (addProxy(new BlockList(), proxy)) continue;
    const hint = 'Write an address or a subnet, as in 127.0.0.1 or 10.0.0.0/8.';
    report(index, 'is not an address', hint);
  }
}

/** Returns false for anything but an address or a subnet. */
export function addProxy(list: BlockList, proxy: string): boolean {
  const [address = '', bits, more] = proxy.split('/');
  const kind = isIP(address);
  if (kind === 0 || more !== undefined) return false;
  const family = kind === 6 ? 'ipv6' : 'ipv4';
  if (bits === undefined) {
    list.addAddress(address, family);
    return true;
  }
  const prefix = Number(bits);
  if (!/^\d{1,3}$/.test(bits) || prefix > (kind === 6 ? 128 : 32)) return false;
  list.addSubnet(address, prefix, family);
  return true;
}
