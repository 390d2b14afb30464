import type { Output } from '../api/types.ts';
import type { OneTimeValues } from '../ui/confirm-parts.tsx';

type WebhookSecret = NonNullable<Output<'package.install'>['webhooks']>[number];

/** Returns the addresses and new secrets for the senders, which the service returns only once. */
export function showSecrets(webhooks: readonly WebhookSecret[]): OneTimeValues | undefined {
  if (webhooks.length === 0) return undefined;
  const hasSecret = webhooks.some(({ secret }) => secret !== null);
  return {
    about: hasSecret
      ? 'A secret is shown only once. Copy it now and give it to the sender.'
      : 'Give each address to its sender.',
    values: webhooks.flatMap(({ id, path, secret }) => [
      [`address of ${id}`, path] as const,
      ...(secret === null ? [] : [[`secret of ${id}`, secret] as const]),
    ]),
  };
}
