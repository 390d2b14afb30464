import type { Output } from '../api/types.ts';
import type { Kept } from '../ui/confirm-parts.tsx';

type Hook = NonNullable<Output<'package.install'>['webhooks']>[number];

/** What senders have to be given; a secret cannot be asked for again. */
export function keepHooks(hooks: readonly Hook[]): Kept | undefined {
  if (hooks.length === 0) return undefined;
  const isMade = hooks.some(({ secret }) => secret !== null);
  return {
    about: isMade
      ? 'A secret is shown this once: copy it now, and give it to the sender.'
      : 'This is where its sender delivers to.',
    values: hooks.flatMap(({ id, path, secret }) => [
      [`address of ${id}`, path] as const,
      ...(secret === null ? [] : [[`secret of ${id}`, secret] as const]),
    ]),
  };
}
