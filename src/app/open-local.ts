import type { LocalConnection, LocalNeed } from '../cli/host.ts';

/** Opens what a command needs without a service, and loads only that. */
export async function openLocal(
  config: string | undefined,
  need: LocalNeed,
): Promise<LocalConnection> {
  if (need === 'files') {
    const { openFiles } = await import('./local-engine.ts');
    return openFiles(config);
  }
  if (need === 'ledger') {
    const { openFastRead } = await import('./fast-read.ts');
    const { locateState } = await import('./locate.ts');
    return openFastRead(await locateState(config));
  }
  const { openLocalReader, openLocalWriter } = await import('./local-engine.ts');
  return need === 'writing' ? openLocalWriter(config) : openLocalReader(config);
}
