import type { ComponentChildren } from 'preact';
import type { Refusal } from '../api/client.ts';
import type { CallState } from './use-call.ts';
import { Copy } from './copy.tsx';
import { Text } from './text.tsx';

/** Head of a page: its title and its actions. */
export function Head(props: {
  readonly title: ComponentChildren;
  readonly about?: ComponentChildren;
  readonly children?: ComponentChildren;
}) {
  return (
    <header class="head">
      <div>
        <h1>{props.title}</h1>
        {props.about !== undefined && <p class="about">{props.about}</p>}
      </div>
      {props.children !== undefined && <div class="acts">{props.children}</div>}
    </header>
  );
}

export function Card(props: {
  readonly title: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly tone?: string;
}) {
  return (
    <section class={`card ${props.tone ?? ''}`}>
      <div class="card-head">
        <h2>{props.title}</h2>
        {props.aside}
      </div>
      {props.children}
    </section>
  );
}

/** Empty state, with a command that changes it. */
export function Empty(props: { readonly children: ComponentChildren; readonly command?: string }) {
  return (
    <div class="empty">
      <p>{props.children}</p>
      {props.command !== undefined && <Command text={props.command} />}
    </div>
  );
}

/** Command with a copy button. */
export function Command({ text }: { readonly text: string }) {
  return (
    <p class="command">
      <code>
        <Text value={text} />
      </code>{' '}
      <Copy text={text} what="the command" />
    </p>
  );
}

export function Problem({ error }: { readonly error: Refusal }) {
  return (
    <div class="problem" role="alert">
      <strong>
        <Text value={error.message} />
      </strong>
      {error.hint !== undefined && (
        <p>
          <Text value={error.hint} />
        </p>
      )}
      {error.code !== 'UNKNOWN' && <code>{error.code}</code>}
    </div>
  );
}

/** Content of a call once it is loaded; until then a placeholder or the error. */
export function Loaded<T>(props: {
  readonly call: CallState<T>;
  /** Title of the page until the content is loaded. */
  readonly title?: string;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { data, error } = props.call;
  if (data !== undefined) {
    // The shell reports once for the whole page that the service doesn't respond.
    return (
      <>
        {error !== undefined && error.status !== 0 && <Problem error={error} />}
        {props.children(data)}
      </>
    );
  }
  return (
    <>
      {props.title !== undefined && <Head title={props.title} />}
      {error === undefined ? <Waiting /> : <Problem error={error} />}
    </>
  );
}

export function Waiting() {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading</span>
      <i />
      <i />
      <i />
    </div>
  );
}

export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [string, ComponentChildren] | undefined)[];
}) {
  return (
    <dl class="facts">
      {facts.map((fact) =>
        fact === undefined ? null : (
          <div>
            <dt>{fact[0]}</dt>
            <dd>{fact[1]}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
