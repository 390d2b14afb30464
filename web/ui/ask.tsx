import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, isDestroying, plan, Refusal } from '../api/client.ts';
import { makeKey } from '../api/key.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { Copy } from './copy.tsx';
import { Problem, Waiting } from './parts.tsx';
import { Text } from './text.tsx';

interface Wish {
  readonly title: string;
  readonly word: string;
  readonly isDestroying: boolean;
  readonly choice: { readonly label: string; readonly texts: readonly string[] } | undefined;
  readonly plan: (chosen: number) => Promise<readonly string[]>;
  readonly fulfil: (chosen: number) => Promise<Fulfilled>;
}

interface Fulfilled {
  readonly told: ComponentChildren;
  readonly kept: Kept | undefined;
}

/** What stays in sight until the reader has it, because nobody is told it again. */
export interface Kept {
  readonly about: string;
  readonly values: readonly (readonly [name: string, value: string])[];
}

let show: ((wish: Wish) => void) | undefined;

export interface Change<N extends Name> {
  readonly title: string;
  /** What the button says that does it. */
  readonly word: string;
  readonly name: N;
  readonly input: Input<N>;
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
  const { title, word, name, input, choice, done, keep } = change;
  const key = makeKey();
  const inputOf = (chosen: number): Input<N> => ({ ...input, ...choice?.options[chosen]?.[1] });
  show?.({
    title,
    word,
    isDestroying: isDestroying(name),
    choice: choice && { label: choice.label, texts: choice.options.map(([text]) => text) },
    plan: (chosen) => plan(name, inputOf(chosen)),
    async fulfil(chosen) {
      const output = await call(name, inputOf(chosen), { key: `${key}-${chosen}` });
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
  const [lines, setLines] = useState<readonly string[]>();
  const [error, setError] = useState<Refusal>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    let isOver = false;
    setLines(undefined);
    setError(undefined);
    wish.plan(chosen).then(
      (told) => {
        if (!isOver) setLines(told);
      },
      (thrown: unknown) => {
        if (!isOver) setError(toRefusal(thrown));
      },
    );
    return () => void (isOver = true);
  }, [wish, chosen]);
  const fulfil = async (): Promise<void> => {
    setBusy(true);
    try {
      end(await wish.fulfil(chosen));
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
      <Choice choice={wish.choice} chosen={chosen} isBusy={isBusy} choose={setChosen} />
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
          disabled={lines === undefined || isBusy}
          onClick={() => void fulfil()}
        >
          {wish.word}
        </button>
      </div>
    </>
  );
}

interface ChoiceProps {
  readonly choice: Wish['choice'];
  readonly chosen: number;
  readonly isBusy: boolean;
  readonly choose: (chosen: number) => void;
}

function Choice({ choice, chosen, isBusy, choose }: ChoiceProps) {
  if (choice === undefined) return null;
  return (
    <label class="field-row">
      <span>{choice.label}</span>
      <select
        disabled={isBusy}
        value={chosen}
        onChange={(event) => choose(Number(event.currentTarget.value))}
      >
        {choice.texts.map((text, at) => (
          <option value={at}>{text}</option>
        ))}
      </select>
    </label>
  );
}

function Plan({ lines }: { readonly lines: readonly string[] }) {
  return (
    <ul class="plan">
      {lines.length === 0 && <li>Nothing would change.</li>}
      {lines.map((line) => (
        <li>
          <Text value={line} />
        </li>
      ))}
    </ul>
  );
}

interface ShownProps {
  readonly told: ComponentChildren;
  readonly kept: Kept;
  readonly close: () => void;
}

function Shown({ told, kept, close }: ShownProps) {
  return (
    <>
      <h2 id="ask-title">{told}</h2>
      <p class="soft">{kept.about}</p>
      <dl class="kept">
        {kept.values.map(([name, value]) => (
          <div>
            <dt>
              <Text value={name} />
            </dt>
            <dd>
              <code>
                <Text value={value} />
              </code>
              <Copy text={value} what={name} />
            </dd>
          </div>
        ))}
      </dl>
      <div class="acts">
        <button type="button" class="main" onClick={close}>
          I have it
        </button>
      </div>
    </>
  );
}

function toRefusal(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
}
