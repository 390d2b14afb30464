import { useState } from 'preact/hooks';
import { signIn, type Reason } from './api/token.ts';

/** Who has no token yet says it here; whether it is good, the first question shows. */
export function Login({ reason }: { readonly reason: Reason | undefined }) {
  const [token, setToken] = useState('');
  const [wrong, setWrong] = useState(
    reason === 'expired' ? 'This token is not good any more.' : '',
  );
  const [isBusy, setBusy] = useState(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setWrong((await judge(token.trim())) ?? '');
    setBusy(false);
  };
  return (
    <main class="login">
      <form onSubmit={(event) => void enter(event)}>
        <img src={document.querySelector('link[rel=icon]')?.getAttribute('href') ?? ''} alt="" />
        <h1>Ductile</h1>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          aria-describedby="token-about"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {wrong !== '' && (
          <p class="wrong" role="alert">
            {wrong}
          </p>
        )}
        <button class="main" disabled={isBusy || token.trim() === ''}>
          Sign in
        </button>
        <p id="token-about" class="about">
          It stays in this tab and is forgotten when the tab is closed. A token for yourself:
          <code>ductile token create dashboard --role admin</code>
        </p>
      </form>
    </main>
  );
}

/** Whether the server takes it: what every token may be told is enough to know. */
async function judge(token: string): Promise<string | undefined> {
  if (!/^[\x21-\x7e]+$/.test(token)) return 'A token has neither spaces nor letters with accents.';
  try {
    const response = await fetch('/jobs?limit=1', {
      cache: 'no-store',
      credentials: 'omit',
      headers: { accept: 'application/json', authorization: `Bearer ${token}` },
    });
    if (response.status === 401) return 'The server does not know this token.';
    if (response.status === 429) return 'There were too many wrong tokens; wait a minute.';
    signIn(token);
    return undefined;
  } catch {
    return 'The server does not answer.';
  }
}
