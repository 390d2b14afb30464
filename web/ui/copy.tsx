import { useState } from 'preact/hooks';

const TOLD_MS = 1500;

export function Copy({ text, what }: { readonly text: string; readonly what: string }) {
  const [told, tell] = useState('');
  const copy = async (button: HTMLButtonElement): Promise<void> => {
    tell((await copyText(text, button)) ? 'Copied' : 'Not copied');
    setTimeout(() => tell(''), TOLD_MS);
  };
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`Copy ${what}`}
      onClick={(event) => void copy(event.currentTarget)}
    >
      {told === '' ? 'Copy' : told}
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

/** Without https, browsers have no clipboard for a page, but they copy what is selected in it. */
function copySelected(text: string, beside: HTMLElement): boolean {
  const area = document.createElement('textarea');
  area.className = 'unseen';
  // Spaces that are drawn as one are copied as one.
  area.style.whiteSpace = 'pre';
  area.readOnly = true;
  area.value = text;
  // Beside the button, because outside of an open dialog nothing can be selected.
  beside.after(area);
  area.select();
  const isDone = document.execCommand('copy');
  area.remove();
  beside.focus();
  return isDone;
}
