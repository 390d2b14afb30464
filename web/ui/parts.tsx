import type { ComponentChildren } from 'preact';
import type { Refusal } from '../api/client.ts';
import type { Called } from './use-call.ts';
import { Copy } from './copy.tsx';
import { Text } from './text.tsx';

/** The head of a page: what it is, and what can be done here. */
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

/** Nothing to show, and what to type to change that. */
export function Empty(props: { readonly children: ComponentChildren; readonly command?: string }) {
  return (
    <div class="empty">
      <p>{props.children}</p>
      {props.command !== undefined && <Command text={props.command} />}
    </div>
  );
}

/** Something to type, and to take along. */
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

/** What was asked for, once it is there; until then room for it, or what went wrong. */
export function Loaded<T>(props: {
  readonly call: Called<T>;
  /** What a whole page is called that cannot say it itself yet. */
  readonly title?: string;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { data, error } = props.call;
  if (data !== undefined) {
    // That nobody answers is said once for the whole page.
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

/** Names and values. */
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
