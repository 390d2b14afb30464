import { useMemo, useState } from 'preact/hooks';
import { tokens } from '../text/json.ts';
import { bytes } from '../text/time.ts';
import { Copy } from './copy.tsx';
import { Text } from './text.tsx';

const SHOWN_CHARS = 12_000;

/** Value as colored JSON; a long one is cut off. */
export function Json({ value, label }: { readonly value: unknown; readonly label: string }) {
  const [isWhole, setWhole] = useState(false);
  const printed = useMemo(() => JSON.stringify(value, null, 2) ?? 'null', [value]);
  const shown = isWhole ? printed : printed.slice(0, SHOWN_CHARS);
  return (
    <div class="json">
      <pre class="printed" tabIndex={0} aria-label={label}>
        {tokens(shown).map(({ kind, text }) =>
          kind === 'sign' ? (
            text
          ) : (
            <span class={`j-${kind}`}>
              <Text value={text} lines />
            </span>
          ),
        )}
        {shown.length < printed.length && ' …'}
      </pre>
      <div class="json-tools">
        {shown.length < printed.length && (
          <button type="button" class="quiet" onClick={() => setWhole(true)}>
            Show all {bytes(printed.length)}
          </button>
        )}
        <Copy text={printed} what={label} />
      </div>
    </div>
  );
}
