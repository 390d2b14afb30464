/** What plugins remember, as `status` shows it. */
import * as z from 'zod';
import { isObject, parseStored } from '../base/json.ts';
import { maskSecrets } from '../base/secrets.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Catalog } from './catalog.ts';

export const viewShape = z.object({
  plugin: z.string(),
  bytes: z.int(),
  state: z
    .record(z.string(), z.unknown())
    .nullable()
    .describe('its row of `plugin_state`, without secrets; null when it is too long to be shown'),
});

const SHOWN_BYTES_MAX = 4096;

/** The state of every plugin in force that has one. */
export async function readViews(
  ledger: Ledger,
  { plugins }: Catalog,
): Promise<z.output<typeof viewShape>[]> {
  const views: z.output<typeof viewShape>[] = [];
  // One after the other: somebody who looks must not take the connections of those who work.
  for (const plugin of [...plugins.keys()].toSorted()) {
    const text = await ledger.state(plugin);
    if (text === '{}') continue;
    const bytes = Buffer.byteLength(text);
    const state = bytes > SHOWN_BYTES_MAX ? null : parseStored(text);
    views.push({ plugin, bytes, state: isObject(state) ? maskSecrets(state) : null });
  }
  return views;
}
