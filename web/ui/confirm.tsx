import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, isDestructive, plan, Refusal } from '../api/client.ts';
import { makeKey } from '../api/key.ts';
import type { Input, Name, Output } from '../api/types.ts';
import { Choice, Plan, Reason, OneTimeDialog, type OneTimeValues } from './confirm-parts.tsx';
import { Problem, Waiting } from './parts.tsx';
import { Text } from './text.tsx';

interface PendingChange {
  readonly title: string;
  readonly word: string;
  readonly isDestructive: boolean;
  readonly about: ComponentChildren;
  readonly choice: { readonly label: string; readonly texts: readonly string[] } | undefined;
  readonly reason: Pick<ReasonField<Name>, 'label' | 'isRequired'> | undefined;
  readonly plan: (choices: Choices) => Promise<readonly string[]>;
  readonly apply: (choices: Choices) => Promise<ChangeResult>;
}

interface Choices {
  readonly chosen: number;
  readonly reason: string;
}

/** Field for a reason that the user may enter. */
export interface ReasonField<N extends Name> {
  readonly field: keyof Input<N> & string;
  readonly label: string;
  readonly isRequired?: boolean;
}

interface ChangeResult {
  readonly message: ComponentChildren;
  readonly oneTime: OneTimeValues | undefined;
}

let show: ((change: PendingChange) => void) | undefined;

export interface Change<N extends Name> {
  readonly title: string;
  /** Text of the button. */
  readonly word: string;
  readonly name: N;
  readonly input: Input<N>;
  /** Content above the plan. */
  readonly about?: ComponentChildren;
  readonly reason?: ReasonField<N>;
  /** Variants of the change, each with its additional input (default: the first one). */
  readonly choice?: {
    readonly label: string;
    readonly options: readonly (readonly [text: string, more: Partial<Input<N>>])[];
  };
  /** Called after the change; returns the text of the toast. */
  readonly done?: (output: Output<N>) => ComponentChildren;
  /** Selects values of the result that are shown until the user closes the dialog. */
  readonly showOnce?: (output: Output<N>) => OneTimeValues | undefined;
}

/** Shows the plan of a change, and makes the change after the user has confirmed. */
export function confirmChange<N extends Name>(change: Change<N>): void {
  const { title, word, name, input, about, choice, reason, done, showOnce } = change;
  const inputOf = ({ chosen, reason: text }: Choices): Input<N> => ({
    ...input,
    ...choice?.options[chosen]?.[1],
    ...(reason === undefined || text === '' ? {} : { [reason.field]: text }),
  });
  // An idempotency key per choice: a retry of the same choice is applied once.
  const keys = new Map<string, string>();
  const keyOf = (choices: Choices): string => {
    const request = JSON.stringify(choices);
    const key = keys.get(request) ?? makeKey();
    keys.set(request, key);
    return key;
  };
  show?.({
    title,
    word,
    isDestructive: isDestructive(name),
    about,
    choice: choice && { label: choice.label, texts: choice.options.map(([text]) => text) },
    reason,
    plan: (choices) => plan(name, inputOf(choices)),
    async apply(choices) {
      const output = await call(name, inputOf(choices), { key: keyOf(choices) });
      return { message: done?.(output) ?? 'Done', oneTime: showOnce?.(output) };
    },
  });
}

export function ConfirmDialog({
  showToast,
}: {
  readonly showToast: (what: ComponentChildren) => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [change, setChange] = useState<PendingChange>();
  const [result, setResult] = useState<ChangeResult>();
  show = (next) => {
    setChange(next);
    setResult(undefined);
    dialog.current?.showModal();
  };
  useEffect(() => () => void (show = undefined), []);
  // Remove secrets from the page at once, and not only on the dialog's `close` event.
  const forget = (): void => {
    setChange(undefined);
    setResult(undefined);
  };
  const close = (): void => {
    forget();
    dialog.current?.close();
  };
  const end = (what: ChangeResult): void => {
    if (what.oneTime === undefined) {
      close();
      showToast(what.message);
      return;
    }
    setResult(what);
    // Reopen the dialog if the user closed it before the response.
    if (dialog.current?.open === false) dialog.current.showModal();
  };
  return (
    <dialog
      ref={dialog}
      class="ask"
      aria-labelledby="ask-title"
      onCancel={(event) => result !== undefined && event.preventDefault()}
      onClose={() => dialog.current?.open === false && forget()}
    >
      {result?.oneTime !== undefined ? (
        <OneTimeDialog message={result.message} oneTime={result.oneTime} close={close} />
      ) : (
        change !== undefined && <Question change={change} close={close} end={end} />
      )}
    </dialog>
  );
}

interface QuestionProps {
  readonly change: PendingChange;
  readonly close: () => void;
  readonly end: (result: ChangeResult) => void;
}

function Question({ change, close, end }: QuestionProps) {
  const [chosen, setChosen] = useState(0);
  const [reason, setReason] = useState('');
  const [lines, setLines] = useState<readonly string[]>();
  const [error, setError] = useState<Refusal>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    let isOver = false;
    setLines(undefined);
    setError(undefined);
    // The plan doesn't depend on the reason, so a required reason gets a placeholder.
    change.plan({ chosen, reason: change.reason?.isRequired === true ? change.word : '' }).then(
      (message) => {
        if (!isOver) setLines(message);
      },
      (thrown: unknown) => {
        if (!isOver) setError(toRefusal(thrown));
      },
    );
    return () => void (isOver = true);
  }, [change, chosen]);
  const isMissing = change.reason?.isRequired === true && reason.trim() === '';
  const apply = async (): Promise<void> => {
    setBusy(true);
    try {
      end(await change.apply({ chosen, reason: reason.trim() }));
    } catch (thrown) {
      setError(toRefusal(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <h2 id="ask-title">
        <Text value={change.title} />
      </h2>
      {change.about}
      <Choice choice={change.choice} chosen={chosen} isBusy={isBusy} choose={setChosen} />
      {change.reason !== undefined && (
        <Reason label={change.reason.label} value={reason} isBusy={isBusy} change={setReason} />
      )}
      {lines === undefined && error === undefined && <Waiting />}
      {lines !== undefined && <Plan lines={lines} />}
      {error !== undefined && <Problem error={error} />}
      <div class="acts">
        <button type="button" onClick={close}>
          Close
        </button>
        <button
          type="button"
          class={change.isDestructive ? 'danger' : 'main'}
          disabled={lines === undefined || isBusy || isMissing}
          onClick={() => void apply()}
        >
          {change.word}
        </button>
      </div>
    </>
  );
}

function toRefusal(thrown: unknown): Refusal {
  return thrown instanceof Refusal ? thrown : new Refusal(0, { error: String(thrown) });
}
