import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ConfirmDialog } from './confirm.tsx';

const SHOWN_MS = 6000;

/** Dialog for changes, and the toast that reports their result. */
export function Overlay() {
  const [toast, setToast] = useState<{ readonly what: ComponentChildren; readonly key: number }>();
  const showToast = (what: ComponentChildren): void => {
    const key = Date.now();
    setToast({ what, key });
    setTimeout(() => setToast((now) => (now?.key === key ? undefined : now)), SHOWN_MS);
  };
  return (
    <>
      <ConfirmDialog showToast={showToast} />
      <div class="toasts" role="status" aria-live="polite">
        {toast !== undefined && <div class="toast">{toast.what}</div>}
      </div>
    </>
  );
}
