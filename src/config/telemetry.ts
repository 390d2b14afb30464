import * as z from 'zod';
import { section } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { secret } from './fields.ts';

/** What is told to monitors outside. */
export interface TelemetryConfig {
  /** Whether `/metrics` needs a token. */
  readonly metrics: 'token' | 'open';
  readonly otlp: OtlpConfig | undefined;
}

/** Where traces go, in OTLP over HTTP. */
export interface OtlpConfig {
  /** Without the path of the signal. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
}

export const telemetrySchema = section({
  metrics: z.enum(['token', 'open']).default('token'),
  otlp: section({
    endpoint: z.string().refine(isHttp, { error: 'must be an http or https URL without a query' }),
    headers: z
      .record(z.string().regex(/^[\w-]+$/, 'must be the name of a header'), secret())
      .default({}),
  }).optional(),
});

export function buildTelemetry(parsed: z.output<typeof telemetrySchema>): TelemetryConfig {
  const { metrics, otlp } = parsed;
  if (otlp === undefined) return { metrics, otlp };
  return { metrics, otlp: { ...otlp, endpoint: otlp.endpoint.replace(/\/+$/, '') } };
}

function isHttp(text: string): boolean {
  if (text.length > limits.httpUrlCharsMax || !URL.canParse(text)) return false;
  const { protocol, search, hash, username } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && `${search}${hash}${username}` === '';
}
