import type { ComponentChildren } from 'preact';

/** Tile with one number. */
export function Tile(props: {
  readonly title: string;
  readonly value: string;
  readonly about: ComponentChildren;
  readonly tone?: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <section class={`tile ${props.tone ?? ''}`}>
      <h2>{props.title}</h2>
      <p class="tile-value">{props.value}</p>
      <p class="soft">{props.about}</p>
      {props.children}
    </section>
  );
}

/** Bar that shows a share of a total. */
export function Share({ part, whole }: { readonly part: number; readonly whole: number }) {
  const width = whole === 0 ? 0 : (100 * part) / whole;
  return (
    <svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect width="100" height="6" />
      <rect class="part" width={width} height="6" />
    </svg>
  );
}
