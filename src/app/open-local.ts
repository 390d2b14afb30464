import type { LocalDoor, LocalNeed } from '../cli/host.ts';

/** Does without a server; only what is needed is loaded. */
export async function openLocal(config: string | undefined, need: LocalNeed): Promise<LocalDoor> {
  if (need === 'files') {
    const { openFiles } = await import('./local-engine.ts');
    return openFiles(config);
  }
  if (need === 'ledger') {
    const { openLookout } = await import('./fast-read.ts');
    const { locateState } = await import('./locate.ts');
    return openLookout(await locateState(config));
  }
  const { openToRead, openToWrite } = await import('./local-engine.ts');
  return need === 'writing' ? openToWrite(config) : openToRead(config);
}
