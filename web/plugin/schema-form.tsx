import type { TargetedInputEvent } from 'preact';
import { useId, useState } from 'preact/hooks';
import { Text } from '../ui/text.tsx';
import { FieldError, fieldsOf, parseObject, valueOf, type Field } from './fields.ts';

interface SchemaFormProps {
  readonly schema: Readonly<Record<string, unknown>> | null | undefined;
  readonly word: string;
  readonly submit: (value: Record<string, unknown>) => void;
}

/** Form for the values of a schema, field by field or as JSON. */
export function SchemaForm({ schema, word, submit }: SchemaFormProps) {
  const fields = fieldsOf(schema);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(new Map());
  const [json, setJson] = useState<string | undefined>(fields.length === 0 ? '{}' : undefined);
  const [wrong, setWrong] = useState<Error>();
  const id = useId();
  const send = (event: Event): void => {
    event.preventDefault();
    try {
      setWrong(undefined);
      submit(json === undefined ? valueOf(fields, texts) : parseObject(json));
    } catch (thrown) {
      setWrong(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  const isFieldError = ({ name }: Field): boolean =>
    wrong instanceof FieldError && wrong.field === name;
  const toggleView = (): void => {
    setWrong(undefined);
    if (json !== undefined) setJson(undefined);
    else
      setJson(
        JSON.stringify(
          valueOrEmpty(() => valueOf(fields, texts)),
          null,
          2,
        ),
      );
  };
  return (
    <form class="schema-form" onSubmit={send}>
      {json === undefined ? (
        fields.map((field) => (
          <FieldRow
            key={field.name}
            field={field}
            id={`${id}-${field.name}`}
            value={texts.get(field.name) ?? field.initial}
            wrong={isFieldError(field) ? wrong?.message : undefined}
            set={(text) => setTexts(new Map(texts).set(field.name, text))}
          />
        ))
      ) : (
        <label class="field-row">
          <span>Payload, a JSON object</span>
          <textarea
            spellcheck={false}
            value={json}
            onInput={(event) => setJson(event.currentTarget.value)}
          />
        </label>
      )}
      {wrong !== undefined && (json !== undefined || !fields.some(isFieldError)) && (
        <Wrong text={wrong.message} />
      )}
      <div class="acts">
        <button class="main">{word}</button>
        {fields.length > 0 && (
          <button type="button" class="quiet" onClick={toggleView}>
            {json === undefined ? 'Edit as JSON' : 'Edit as form'}
          </button>
        )}
      </div>
    </form>
  );
}

function Wrong({ text, id }: { readonly text: string; readonly id?: string }) {
  return (
    <p class="wrong" role="alert" {...(id === undefined ? {} : { id })}>
      <Text value={text} />
    </p>
  );
}

interface ControlProps {
  readonly field: Field;
  readonly id: string;
  readonly value: string;
  readonly wrong: string | undefined;
  readonly set: (text: string) => void;
}

function FieldRow({ field, id, value, wrong, set }: ControlProps) {
  const { name, about, form, required } = field;
  return (
    <div class="field-row">
      <label for={id}>
        <Text value={name} />
        <span class="soft"> {[required ? 'required' : '', form].filter(Boolean).join(', ')}</span>
      </label>
      <Control field={field} id={id} value={value} wrong={wrong} set={set} />
      {wrong !== undefined && <Wrong id={`${id}-wrong`} text={wrong} />}
      {about !== '' && (
        <span class="soft small">
          <Text value={about} />
        </span>
      )}
    </div>
  );
}

function Control({ field, id, value, wrong, set }: ControlProps) {
  const { kind, required, choices, isWhole } = field;
  const fault =
    wrong === undefined ? {} : { 'aria-invalid': true, 'aria-describedby': `${id}-wrong` };
  if (kind === 'choice' || kind === 'yes-no') {
    const options = kind === 'choice' ? choices : ['true', 'false'];
    return (
      <select
        id={id}
        required={required}
        value={value}
        onChange={(event) => set(event.currentTarget.value)}
      >
        <option value="">–</option>
        {options.map((option) => (
          <option value={option}>
            {kind === 'choice' ? option : option === 'true' ? 'yes' : 'no'}
          </option>
        ))}
      </select>
    );
  }
  if (kind === 'json' || kind === 'long') {
    return (
      <textarea
        id={id}
        required={required}
        spellcheck={kind === 'long'}
        {...fault}
        value={value}
        onInput={(event) => set(event.currentTarget.value)}
      />
    );
  }
  const common = {
    id,
    required,
    value,
    ...fault,
    onInput: (event: TargetedInputEvent<HTMLInputElement>) => set(event.currentTarget.value),
  };
  return kind === 'number' ? (
    <input type="number" step={isWhole ? '1' : 'any'} {...common} />
  ) : (
    <input type="text" list={undefined} {...common} />
  );
}

function valueOrEmpty(make: () => Record<string, unknown>): Record<string, unknown> {
  try {
    return make();
  } catch {
    return {};
  }
}
