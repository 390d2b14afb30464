import { DuctileError } from './errors.ts';

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/** Whether it may hold for some of a batch only: one that is smaller may fit. */
function isOfOne(error: unknown): boolean {
  return !(error instanceof DuctileError) || error.code === 'TENANT_LIMIT';
}

/**
 * What comes in one turn of the event loop is one batch and one commit. `write` answers for each item,
 * in their order.
 */
export function makeBatcher<Item, Answer>(
  write: (items: readonly Item[]) => Promise<readonly Answer[]>,
): (item: Item) => Promise<Answer> {
  let waiting: Waiting<Item, Answer>[] = [];

  const pass = async (batch: readonly Waiting<Item, Answer>[]): Promise<void> => {
    try {
      const answers = await write(batch.map(({ item }) => item));
      answers.forEach((answer, index) => batch[index]?.resolve(answer));
    } catch (error) {
      // What is refused of one is no reason to refuse the others that came with it.
      if (batch.length > 1 && isOfOne(error)) {
        for (const one of batch) await pass([one]);
      } else for (const { reject } of batch) reject(error);
    }
  };

  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    void pass(batch);
  };

  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ item, resolve, reject });
    });
}
