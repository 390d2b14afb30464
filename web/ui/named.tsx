import type { ComponentChildren } from 'preact';
import { Line, Text } from './text.tsx';

/** First cell of a row: a link with a name, a second name, and an error. */
export function Named(props: {
  readonly href: string;
  readonly value: string;
  readonly apart?: string;
  readonly error: string | null | undefined;
  readonly children?: ComponentChildren;
}) {
  const { href, value, apart, error, children } = props;
  return (
    <>
      <a class="name" href={href}>
        <Text value={value} />
        {apart !== undefined && (
          <>
            {' '}
            <span class="soft">
              <Text value={apart} />
            </span>
          </>
        )}
      </a>
      {children}
      {error !== null && error !== undefined && (
        <span class="error-line">
          <Line value={error} />
        </span>
      )}
    </>
  );
}
