import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, isDestroying, plan, Refusal } from '../api/client.ts';
import { makeKey } from '../api/key.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { Choice, Plan, Reason, Shown, type Kept } from './confirm-parts.tsx';
import { Problem, Waiting } from './parts.tsx';
import { Text } from './text.tsx';

interface Wish {
  readonly title: string;
  readonly word: string;
  readonly isDestroying: boolean;
  readonly about: ComponentChildren;
  readonly choice: { readonly label: string; readonly texts: readonly string[] } | undefined;
  readonly reason: Pick<ReasonField<Name>, 'label' | 'isRequired'> | undefined;
  readonly plan: (choices: Choices) => Promise<readonly string[]>;
  readonly fulfil: (choices: Choices) => Promise<Fulfilled>;
}

interface Choices {
  readonly chosen: number;
  readonly reason: string;
}

/** A text that the reader may add, for the record. */
export interface ReasonField<N extends Name> {
  readonly field: keyof Input<N> & string;
  readonly label: string;
  readonly isRequired?: boolean;
}

interface Fulfilled {
  readonly told: ComponentChildren;
  readonly kept: Kept | undefined;
}

let show: ((wish: Wish) => void) | undefined;

export interface Change<N extends Name> {
  readonly title: string;
  /** What the button says that does it. */
  readonly word: string;
  readonly name: N;
  readonly input: Input<N>;
  /** What the reader must know to decide, above the plan. */
  readonly about?: ComponentChildren;
  readonly reason?: ReasonField<N>;
  /** Ways to do it, each with what it adds to the input; the first one unless chosen. */
  readonly choice?: {
    readonly label: string;
    readonly options: readonly (readonly [text: string, more: Partial<Input<N>>])[];
  };
  /** Afterwards; what it gives is told. */
  readonly done?: (output: Output<N>) => ComponentChildren;
  /** What of the answer is shown until the reader closes it. */
  readonly keep?: (output: Output<N>) => Kept | undefined;
}

/** Every change shows first what it would do, and is done when the reader says so. */
export function ask<N extends Name>(change: Change<N>): void {
  const { title, word, name, input, about, choice, reason, done, keep } = change;
  const inputOf = ({ chosen, reason: text }: Choices): Input<N> => ({
    ...input,
    ...choice?.options[chosen]?.[1],
    ...(reason === undefined || text === '' ? {} : { [reason.field]: text }),
  });
  // Another choice is another request; the same one asked again is done once.
  const keys = new Map<string, string>();
  const keyOf = (choices: Choices): string => {
    const asked = JSON.stringify(choices);
    const key = keys.get(asked) ?? makeKey();
    keys.set(asked, key);
    return key;
  };
  show?.({
    title,
    word,
    isDestroying: isDestroying(name),
    about,
    choice: choice && { label: choice.label, texts: choice.options.map(([text]) => text) },
    reason,
    plan: (choices) => plan(name, inputOf(choices)),
    async fulfil(choices) {
      const output = await call(name, inputOf(choices), { key: keyOf(choices) });
      return { told: done?.(output) ?? 'Done.', kept: keep?.(output) };
    },
  });
}

export function AskDialog({ tell }: { readonly tell: (what: ComponentChildren) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [wish, setWish] = useState<Wish>();
  const [fulfilled, setFulfilled] = useState<Fulfilled>();
  show = (next) => {
    setWish(next);
    setFulfilled(undefined);
    dialog.current?.showModal();
  };
  useEffect(() => () => void (show = undefined), []);
  // What was shown once is not left in the page, not even until the dialog says that it closed.
  const forget = (): void => {
    setWish(undefined);
    setFulfilled(undefined);
  };
  const close = (): void => {
    forget();
    dialog.current?.close();
  };
  const end = (what: Fulfilled): void => {
    if (what.kept === undefined) {
      close();
      tell(what.told);
      return;
    }
    setFulfilled(what);
    // Whoever did not wait for the answer must see it all the same.
    if (dialog.current?.open === false) dialog.current.showModal();
  };
  return (
    <dialog
      ref={dialog}
      class="ask"
      aria-labelledby="ask-title"
      onCancel={(event) => fulfilled !== undefined && event.preventDefault()}
      onClose={() => dialog.current?.open === false && forget()}
    >
      {fulfilled?.kept !== undefined ? (
        <Shown told={fulfilled.told} kept={fulfilled.kept} close={close} />
      ) : (
        wish !== undefined && <Question wish={wish} close={close} end={end} />
      )}
    </dialog>
  );
}

interface QuestionProps {
  readonly wish: Wish;
  readonly close: () => void;
  readonly end: (fulfilled: Fulfilled) => void;
}

function Question({ wish, close, end }: QuestionProps) {
  const [chosen, setChosen] = useState(0);
  const [reason, setReason] = useState('');
  const [lines, setLines] = useState<readonly string[]>();
  const [error, setError] = useState<Refusal>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    let isOver = false;
    setLines(undefined);
    setError(undefined);
    // The plan is the same with every reason; where one is required, any reason will do.
    wish.plan({ chosen, reason: wish.reason?.isRequired === true ? wish.word : '' }).then(
      (told) => {
        if (!isOver) setLines(told);
      },
      (thrown: unknown) => {
        if (!isOver) setError(toRefusal(thrown));
      },
    );
    return () => void (isOver = true);
  }, [wish, chosen]);
  const isMissing = wish.reason?.isRequired === true && reason.trim() === '';
  const fulfil = async (): Promise<void> => {
    setBusy(true);
    try {
      end(await wish.fulfil({ chosen, reason: reason.trim() }));
    } catch (thrown) {
      setError(toRefusal(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <h2 id="ask-title">
        <Text value={wish.title} />
      </h2>
      {wish.about}
      <Choice choice={wish.choice} chosen={chosen} isBusy={isBusy} choose={setChosen} />
      {wish.reason !== undefined && (
        <Reason label={wish.reason.label} value={reason} isBusy={isBusy} change={setReason} />
      )}
      {lines === undefined && error === undefined && <Waiting />}
      {lines !== undefined && <Plan lines={lines} />}
      {error !== undefined && <Problem error={error} />}
      <div class="acts">
        <button type="button" onClick={close}>
          Leave it
        </button>
        <button
          type="button"
          class={wish.isDestroying ? 'danger' : 'main'}
          disabled={lines === undefined || isBusy || isMissing}
          onClick={() => void fulfil()}
        >
          {wish.word}
        </button>
      </div>
    </>
  );
}

function toRefusal(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
}
