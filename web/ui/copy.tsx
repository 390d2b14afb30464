import { useState } from 'preact/hooks';

const NOTE_MS = 1500;

export function Copy({ text, what }: { readonly text: string; readonly what: string }) {
  const [note, setNote] = useState('');
  const copy = async (button: HTMLButtonElement): Promise<void> => {
    setNote((await copyText(text, button)) ? 'Copied' : 'Not copied');
    setTimeout(() => setNote(''), NOTE_MS);
  };
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`Copy ${what}`}
      onClick={(event) => void copy(event.currentTarget)}
    >
      {note === '' ? 'Copy' : note}
    </button>
  );
}

async function copyText(text: string, beside: HTMLElement): Promise<boolean> {
  if (!isSecureContext) return copySelected(text, beside);
  return await navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

/** Copies a selected text, because browsers offer the clipboard API only on https and loopback. */
function copySelected(text: string, beside: HTMLElement): boolean {
  const area = document.createElement('textarea');
  area.className = 'unseen';
  // Otherwise consecutive spaces would be copied as one.
  area.style.whiteSpace = 'pre';
  area.readOnly = true;
  area.value = text;
  // Insert it beside the button: text outside of an open dialog can't be selected.
  beside.after(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  beside.focus();
  return isDone;
}
