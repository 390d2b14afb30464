import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { AskDialog } from './confirm.tsx';

const SHOWN_MS = 6000;

/** Says what was done, for a moment; and where changes are asked about. */
export function Desk() {
  const [told, setTold] = useState<{ readonly what: ComponentChildren; readonly key: number }>();
  const tell = (what: ComponentChildren): void => {
    const key = Date.now();
    setTold({ what, key });
    setTimeout(() => setTold((now) => (now?.key === key ? undefined : now)), SHOWN_MS);
  };
  return (
    <>
      <AskDialog tell={tell} />
      <div class="toasts" role="status" aria-live="polite">
        {told !== undefined && <div class="toast">{told.what}</div>}
      </div>
    </>
  );
}
