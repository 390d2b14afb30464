import type { ComponentChildren } from 'preact';
import { Copy } from './copy.tsx';
import { Text } from './text.tsx';

/** Values such as secrets, which the service returns only once. They are shown until the user closes the dialog. */
export interface OneTimeValues {
  readonly about: string;
  readonly values: readonly (readonly [name: string, value: string])[];
}

interface ChoiceProps {
  readonly choice: { readonly label: string; readonly texts: readonly string[] } | undefined;
  readonly chosen: number;
  readonly isBusy: boolean;
  readonly choose: (chosen: number) => void;
}

export function Choice({ choice, chosen, isBusy, choose }: ChoiceProps) {
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

interface ReasonProps {
  readonly label: string;
  readonly value: string;
  readonly isBusy: boolean;
  readonly change: (value: string) => void;
}

/** Maximum length that the service stores. */
const REASON_CHARS = 1000;

export function Reason({ label, value, isBusy, change }: ReasonProps) {
  return (
    <label class="field-row">
      <span>{label}</span>
      <textarea
        rows={2}
        maxLength={REASON_CHARS}
        disabled={isBusy}
        value={value}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

export function Plan({ lines }: { readonly lines: readonly string[] }) {
  return (
    <ul class="plan">
      {lines.length === 0 && <li>Nothing will change.</li>}
      {lines.map((line) => (
        <li>
          <Text value={line} />
        </li>
      ))}
    </ul>
  );
}

interface OneTimeDialogProps {
  readonly message: ComponentChildren;
  readonly oneTime: OneTimeValues;
  readonly close: () => void;
}

export function OneTimeDialog({ message, oneTime, close }: OneTimeDialogProps) {
  return (
    <>
      <h2 id="ask-title">{message}</h2>
      <p class="soft">{oneTime.about}</p>
      <dl class="kept">
        {oneTime.values.map(([name, value]) => (
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
