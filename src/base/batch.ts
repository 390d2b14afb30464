import { DuctileError } from './errors.ts';

interface QueuedItem<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Collects the items of one turn of the event loop, and writes them as one batch with one commit.
 * `write` returns a result for each item, in their order.
 */
export function makeBatcher<Item, Result>(
  write: (items: readonly Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let waiting: QueuedItem<Item, Result>[] = [];

  const writeBatch = async (batch: readonly QueuedItem<Item, Result>[]): Promise<void> => {
    try {
      const results = await write(batch.map(({ item }) => item));
      results.forEach((result, index) => batch[index]?.resolve(result));
    } catch (error) {
      // A refused item must not refuse the others of its batch.
      if (batch.length > 1 && canConcernOneItem(error)) {
        for (const one of batch) await writeBatch([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void writeBatch(batch);
  };

  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ item, resolve, reject });
    });
}

/** A batch over a tenant's limit may fail as a whole although each of its items would fit. */
function canConcernOneItem(error: unknown): boolean {
  return !(error instanceof DuctileError) || error.code === 'TENANT_LIMIT';
}
