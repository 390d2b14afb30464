import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, isDestroying, plan, Refusal } from '../api/client.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { Problem, Waiting } from './parts.tsx';
import { Text } from './text.tsx';

interface Wish {
  readonly title: string;
  readonly word: string;
  readonly isDestroying: boolean;
  readonly plan: () => Promise<readonly string[]>;
  readonly fulfil: () => Promise<ComponentChildren>;
}

let show: ((wish: Wish) => void) | undefined;

export interface Change<N extends Name> {
  readonly title: string;
  /** What the button says that does it. */
  readonly word: string;
  readonly name: N;
  readonly input: Input<N>;
  /** Afterwards; what it gives is told. */
  readonly done?: (output: Output<N>) => ComponentChildren;
}

/** Every change shows first what it would do, and is done when the reader says so. */
export function ask<N extends Name>({ title, word, name, input, done }: Change<N>): void {
  const key = crypto.randomUUID();
  show?.({
    title,
    word,
    isDestroying: isDestroying(name),
    plan: () => plan(name, input),
    fulfil: async () => done?.(await call(name, input, { key })),
  });
}

export function AskDialog({ tell }: { readonly tell: (what: ComponentChildren) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [wish, setWish] = useState<Wish>();
  const [lines, setLines] = useState<readonly string[]>();
  const [error, setError] = useState<Refusal>();
  const [isBusy, setBusy] = useState(false);
  show = (next) => {
    setWish(next);
    setLines(undefined);
    setError(undefined);
    dialog.current?.showModal();
    next.plan().then(setLines, (thrown: unknown) => setError(toRefusal(thrown)));
  };
  useEffect(() => () => void (show = undefined), []);
  const close = (): void => dialog.current?.close();
  const fulfil = async (): Promise<void> => {
    if (wish === undefined) return;
    setBusy(true);
    try {
      const told = await wish.fulfil();
      close();
      tell(told ?? 'Done.');
    } catch (thrown) {
      setError(toRefusal(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class="ask" aria-labelledby="ask-title">
      <h2 id="ask-title">{wish === undefined ? '' : <Text value={wish.title} />}</h2>
      {wish !== undefined && lines === undefined && error === undefined && <Waiting />}
      {lines !== undefined && (
        <ul class="plan">
          {lines.length === 0 && <li>Nothing would change.</li>}
          {lines.map((line) => (
            <li>
              <Text value={line} />
            </li>
          ))}
        </ul>
      )}
      {error !== undefined && <Problem error={error} />}
      <div class="acts">
        <button type="button" onClick={close}>
          Leave it
        </button>
        <button
          type="button"
          class={wish?.isDestroying === true ? 'danger' : 'main'}
          disabled={lines === undefined || isBusy}
          onClick={() => void fulfil()}
        >
          {wish?.word ?? 'Do it'}
        </button>
      </div>
    </dialog>
  );
}

function toRefusal(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
}
